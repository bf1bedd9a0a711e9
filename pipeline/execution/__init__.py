"""Steps, workers, progress and checkpoints; knows no statistics."""
