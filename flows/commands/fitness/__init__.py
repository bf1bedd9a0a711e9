"""The command that judges a release, and how it shows what is found."""
