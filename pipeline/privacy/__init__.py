"""Noise, keys, budget, accounting: everything a privacy reviewer has to read, and nothing else."""
