"""Public files that a spec names."""
