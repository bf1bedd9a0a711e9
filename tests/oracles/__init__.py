"""Independent computations that the tests compare with: dense algebra, brute force. They share no code with the packages."""
