"""Small releases to run in tests."""
