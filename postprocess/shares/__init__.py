"""Public numbers that say how the children of a geounit share its persons."""
