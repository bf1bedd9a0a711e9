"""The commands of `spinewise`, one module a group; each has `add_to(app)`."""
