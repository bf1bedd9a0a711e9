"""Atomic, durable, private writing."""
