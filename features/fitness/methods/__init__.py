"""Other ways to protect the same counts, for comparison; all of them work on true counts."""
