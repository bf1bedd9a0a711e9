"""From files as they come to an input folder with a release spec that runs: census summary files and plain tables."""
