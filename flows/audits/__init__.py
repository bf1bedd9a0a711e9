"""Audits of what is installed, and of a release."""
