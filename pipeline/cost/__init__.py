"""What a run will cost in time and memory: the size of the work, a calibrated model, and how a run is made to fit."""
