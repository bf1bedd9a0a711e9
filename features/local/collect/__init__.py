"""Randomisers for the local model: an answer is protected on the respondent's device, before it is sent.

Imports numpy and the standard library only, so that it runs on a small device. Python users import `spinewise.collect`.
"""
