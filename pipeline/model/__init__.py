"""Frozen values: what is measured."""
