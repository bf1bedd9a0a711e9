"""How statistical offices protect the numbers of tables one by one: what they publish, and what follows from it."""
