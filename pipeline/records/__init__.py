"""Confidential files to leaf histograms."""
