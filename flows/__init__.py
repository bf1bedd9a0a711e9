"""Runs and their commands: what reads records, measures, estimates, publishes and checks, in steps."""
