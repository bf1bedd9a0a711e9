"""Errors of the post-processing."""

from __future__ import annotations

from geography.errors import InputError, SpinewiseError


class SolverError(SpinewiseError):
    """A solve did not reach its tolerance with any solver; the message names the geounit. The run stops."""


class InfeasibleError(InputError):
    """The constraints contradict each other; the message says where and by how many persons."""
