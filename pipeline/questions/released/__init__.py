"""Answers beside a release: which are sums of its cells, and what both say together. Public numbers alone."""
