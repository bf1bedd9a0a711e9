"""Tests of what is installed and of finished releases, by computations that share nothing with what they test."""
