"""Layouts of 2020 that are both read and written."""
