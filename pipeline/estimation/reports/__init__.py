"""Estimation from randomised reports: numbers of them, debiased counts, and simulated reports."""
