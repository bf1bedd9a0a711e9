"""Files that `pipeline.example` writes out as they stand."""
