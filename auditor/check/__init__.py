"""The independent check of a release: imports errors and the layout of a release only."""
