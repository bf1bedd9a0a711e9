"""From mechanisms to the statements that are made of them."""
