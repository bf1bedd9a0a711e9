"""The spine of geounits: building it from lists of public codes, checking it, slicing it."""
