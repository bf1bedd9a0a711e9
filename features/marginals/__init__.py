"""Marginals on a spine: records with many attributes, of which no table over the whole schema is ever made."""
