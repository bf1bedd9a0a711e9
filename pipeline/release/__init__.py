"""The run directory, and the form of every file in it."""
