"""From measurements to every public file."""
