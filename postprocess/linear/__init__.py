"""Best linear estimates and their variances."""
