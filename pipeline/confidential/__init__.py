"""What code that sees confidential data needs, in the core and in features: on the confidential side of the wall."""
