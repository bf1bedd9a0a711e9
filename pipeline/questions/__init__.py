"""Answers to questions on the records: a small typed language, whose sensitivity follows from how it is built.

Pure: nothing here reads a record, a key or a ledger, or asks anything.
"""
