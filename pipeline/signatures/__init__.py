"""What an agency signs of a release or an answer, with which keys, and whether a signature holds."""
