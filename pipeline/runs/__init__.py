"""Whole runs: what a user asks for, from the request to the manifest."""
