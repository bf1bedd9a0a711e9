"""Independent computations that the tests compare with: dense algebra, brute force, sharing no code."""
