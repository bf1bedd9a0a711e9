"""Joins: what households, the records of a companion, imply for the persons who live in them."""
