"""Public numbers by which persons are expected to be shared among areas: `[postprocess.shares]` of a spec."""
