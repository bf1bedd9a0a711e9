"""Tables that others protected, number by number, made into one set that adds up: `[published]` of a spec."""
