"""A second program that audits a finished release: it imports nothing of the first, and trusts nothing it says."""
