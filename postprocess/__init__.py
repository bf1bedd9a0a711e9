"""Estimates from measurements: least squares, constraints, the top-down pass, rounding, margins of error.

Nothing here ever sees confidential data: it is given measurements, public constraints and the spine.
"""
