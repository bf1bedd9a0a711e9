"""Files of a release about persons and the households they live in."""
