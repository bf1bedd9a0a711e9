"""How good a release is for its uses: `spinewise fitness`."""
