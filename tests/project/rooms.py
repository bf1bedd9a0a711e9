"""Prints how the rooms stand: modules of a folder, the longest chain of imports, circles, lengths; 1 past a limit."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(
    name for name in ("geography", "pipeline", "postprocess", "flows", "spinewise") if (PROJECT / name).is_dir()
)

#: Modules of one folder, imports from top to bottom, lines of one file.
MOST_MODULES, LONGEST_CHAIN, MOST_LINES = 20, 18, 400

Graph = Mapping[str, frozenset[str]]


def import_graph() -> Graph:
    """Module -> modules of ours that it imports, also within functions; not those that only annotations name."""
    sys.path.insert(0, str(PROJECT))
    found = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    return {module: frozenset(found.find_modules_directly_imported_by(module)) for module in found.modules}


def components(graph: Graph) -> list[frozenset[str]]:
    """Strongly connected components, each after those that it imports (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    done: list[frozenset[str]] = []

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
            done.append(frozenset(stack[start:]))
            del stack[start:]

    sys.setrecursionlimit(10_000)
    for module in sorted(graph):
        if module not in index:
            visit(module)
    return done


def circles(graph: Graph) -> list[frozenset[str]]:
    """Modules that import each other, directly or not."""
    return [component for component in components(graph) if len(component) > 1]


def longest_chain(graph: Graph) -> list[str]:
    """The most modules of which each imports the next; a circle counts as one."""
    chains: dict[str, list[str]] = {}
    for component in components(graph):
        imported = {name for module in component for name in graph[module]} - component
        below: list[str] = max((chains[name] for name in sorted(imported)), key=len, default=[])
        for module in component:
            chains[module] = [min(component), *below]
    return max(chains.values(), key=len)


def modules_of_folders() -> Counter[str]:
    """Folder -> its modules, without `__init__`."""
    paths = [path.relative_to(PROJECT) for path in _files()]
    return Counter(path.parent.as_posix() for path in paths if path.name != "__init__.py")


def line_counts() -> dict[str, int]:
    """File -> lines, of all that is written by hand but the empty `__init__`: modules, scripts, styles, templates."""
    paths = [*_files(), *(path for suffix in ("js", "css", "j2") for path in _files(suffix) if path.name != "vega.js")]
    counts = {str(path.relative_to(PROJECT)): len(path.read_text("utf-8").splitlines()) for path in paths}
    return {path: lines for path, lines in counts.items() if lines > 1}


def _files(suffix: str = "py") -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((PROJECT / package).rglob(f"*.{suffix}"))


def main() -> int:
    """Print the figures; 1 where one of them is past its limit."""
    graph = import_graph()
    folders, lines, chain, closed = modules_of_folders(), line_counts(), longest_chain(graph), circles(graph)
    fullest, longest = max(folders, key=folders.__getitem__), max(lines, key=lines.__getitem__)
    rows = [
        ("modules", str(sum(folders.values())), ""),
        ("folders", str(len(folders)), ""),
        ("fullest folder", f"{folders[fullest]} ({fullest})", f"at most {MOST_MODULES}"),
        ("longest chain of imports", str(len(chain)), f"at most {LONGEST_CHAIN}"),
        ("circles", str(len(closed)), "none"),
        ("longest file", f"{lines[longest]} lines ({longest})", f"at most {MOST_LINES}"),
        ("median file", f"{statistics.median(lines.values()):.0f} lines", ""),
    ]
    for name, figure, limit in rows:
        sys.stdout.write(f"{name:26} {figure:44} {limit}\n")
    sys.stdout.write("\n" + "\n".join(f"{'  ' * depth}{module}" for depth, module in enumerate(chain)) + "\n")
    for circle in closed:
        sys.stdout.write(f"circle: {', '.join(sorted(circle))}\n")
    within = folders[fullest] <= MOST_MODULES and len(chain) <= LONGEST_CHAIN and lines[longest] <= MOST_LINES
    return 0 if within and not closed else 1


if __name__ == "__main__":
    sys.exit(main())
