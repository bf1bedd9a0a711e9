"""Checks of a spec, its records and the machine, before a run."""
