"""`spinewise query`: its options, its answers, and how they are shown."""
