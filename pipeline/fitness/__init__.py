"""Fitness for use: how good a release is, in the measures by which the field judges one."""
