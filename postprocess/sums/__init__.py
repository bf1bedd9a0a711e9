"""Schemas of which most levels measure few sums: estimates and information live on these sums, and on no cells."""
