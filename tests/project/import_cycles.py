"""Prints modules that import each other, directly or not, also where only annotations need it; 1 if there are any."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(
    name
    for name in ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
    if (PROJECT / name).is_dir()
)

Graph = Mapping[str, frozenset[str]]


def import_graph() -> Graph:
    """Module -> modules of ours that it imports, also within functions and for annotations alone."""
    sys.path.insert(0, str(PROJECT))
    found = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {module: frozenset(found.find_modules_directly_imported_by(module)) for module in found.modules}


def cycles(graph: Graph) -> list[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in sorted(graph[module]):
            if imported not in index:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            start = stack.index(module)
            found.append(frozenset(stack[start:]))
            del stack[start:]

    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for module in sorted(graph):
            if module not in index:
                visit(module)
    finally:
        sys.setrecursionlimit(usual)  # of the process that runs other tests, too
    return [component for component in found if len(component) > 1]


def main() -> int:
    """Print the cycles; 1 where there is one."""
    found = cycles(import_graph())
    for cycle in found:
        sys.stdout.write(f"these modules import each other: {', '.join(sorted(cycle))}\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
