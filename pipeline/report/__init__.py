"""The report of a release: one page that needs nothing else, computed from what is public."""
