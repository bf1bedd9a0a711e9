"""What to expect of a release before anything is spent: `spinewise plan` and `spinewise.plan`."""
