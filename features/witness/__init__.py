"""Proofs of published numbers, and the log of releases: `spinewise prove`, `spinewise log`."""
