"""Whether noise is what it is said to be: `spinewise audit` of what is installed, of a release, of an answer."""
