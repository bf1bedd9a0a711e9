"""What is wrong with a spec, records or a machine, before a run."""
