"""One parent and its children: solved and rounded."""
