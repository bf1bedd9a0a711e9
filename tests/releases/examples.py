"""Examples of the project that are about real data, to be run elsewhere."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rhode_island(shared_data: Path) -> str:
    """The spec of `examples/rhode_island.toml`, with the places of its files in full."""
    text = (EXAMPLES / "rhode_island.toml").read_text(encoding="utf-8")
    text = text.replace('"../../shared/data/', f'"{shared_data}/')
    return text.replace('"rhode_island_names.csv"', f'"{EXAMPLES / "rhode_island_names.csv"}"')
