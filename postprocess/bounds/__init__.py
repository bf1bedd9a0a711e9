"""Constraints: declared, carried down, possible or not."""
