"""Public shares of a universe: what their numbers say, and how far areas are from them."""
