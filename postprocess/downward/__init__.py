"""Level by level: passes, tasks, subtrees, simulated margins."""
