"""One reading of a release, by which it is both checked and audited."""
