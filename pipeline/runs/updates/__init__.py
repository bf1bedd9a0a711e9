"""Versions of a release that are made with answers of questions: post-processing of public files, at no cost."""
