"""Files that `features.example.example` writes out as they stand."""
