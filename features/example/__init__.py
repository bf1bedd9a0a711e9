"""The synthetic state of `spinewise example`."""
