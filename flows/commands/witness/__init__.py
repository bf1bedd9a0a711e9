"""Commands of witnessed releases: sign, prove, log."""
