"""What a run takes at most: the sizes of its arrays, the bound on its memory, and how a run is made to fit."""
