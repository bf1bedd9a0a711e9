"""Answers to questions, estimated together with a release, from public files alone."""
