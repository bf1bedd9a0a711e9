"""What a release can do without: one folder for each capability, none of which the core imports."""
