"""What universes of one release have in common: persons and households, sums and counts."""
