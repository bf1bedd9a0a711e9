"""Witnesses of a release: signatures, Merkle trees of rows, proofs, and the log that they are published in."""
