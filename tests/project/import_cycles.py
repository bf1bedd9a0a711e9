"""Prints modules that import each other, directly or not, also where only annotations need it; 1 if there are any."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(
    name
    for name in ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
    if (PROJECT / name).is_dir()
)


def import_graph() -> Mapping[str, Set[str]]:
    """Module -> modules of ours that it imports, also within functions and for annotations alone."""
    sys.path.insert(0, str(PROJECT))
    found = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {module: found.find_modules_directly_imported_by(module) for module in found.modules}


def cycle(graph: Mapping[str, Set[str]]) -> list[str]:
    """Modules of which each imports the one before it, the first of them the last; none where there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main() -> int:
    """Print a cycle; 1 where there is one."""
    found = cycle(import_graph())
    if found:
        sys.stdout.write(f"these modules import each other: {', '.join(found)}\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
