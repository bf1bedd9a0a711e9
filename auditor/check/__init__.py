"""The independent check of a release: reads what is public, and nothing else."""
