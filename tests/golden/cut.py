"""`python -m golden.cut ARGUMENTS`: the command `spinewise`, with a spine that is cut, however few cells it has."""

from __future__ import annotations

import runpy

from pipeline.cost import memory

for _name in ("MOST_CELLS", "PART_CELLS"):
    setattr(memory, _name, 1)

if __name__ == "__main__":
    runpy.run_module("flows.cli", run_name="__main__")
