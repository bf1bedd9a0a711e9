"""What a version of a release says of the one that it replaces."""
