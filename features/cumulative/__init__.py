"""Cumulative tables: how many have a value of an ordered attribute, or one before it."""
