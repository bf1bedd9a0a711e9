"""The public problem, solved and rounded, and its simulated margins."""
