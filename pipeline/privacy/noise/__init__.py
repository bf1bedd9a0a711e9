"""Exact samplers and their keyed streams."""
