"""Releases of the same population over time: noise correlated over periods, and one consistent history."""
