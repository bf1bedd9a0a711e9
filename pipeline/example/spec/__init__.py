"""Files that `pipeline.example.example` writes out as they stand."""
