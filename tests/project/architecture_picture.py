"""Draws docs/images/architecture.svg, the picture of docs/architecture.md: `make docs`.

The rooms are listed here by hand, with what each is for; a test compares the list with the folders. The picture loads
nothing and needs no library, so that the site works offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "architecture.svg"

WIDTH, HEIGHT = 1240, 1036
_SECRET, _PUBLIC, _NEUTRAL, _WALL, _INK = "#fbe3e0", "#ddf0ea", "#eef0f4", "#b3261e", "#1f2430"
_LINE_OF = {_SECRET: "#b3261e", _PUBLIC: "#00796b", _NEUTRAL: "#8a90a0"}


@dataclass(frozen=True)
class Room:
    """A box: the folder that it stands for, what it is for, and where it is drawn."""

    folder: str
    purpose: tuple[str, ...]
    x: int
    y: int
    width: int
    height: int
    colour: str = _NEUTRAL

    def svg(self) -> str:
        """The box with its two kinds of text."""
        lines = [
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8" fill="{self.colour}" '
            f'stroke="{_LINE_OF[self.colour]}"/>',
            _text(self.x + 12, self.y + 22, self.folder, "room"),
        ]
        lines += [_text(self.x + 12, self.y + 41 + 17 * row, line, "what") for row, line in enumerate(self.purpose)]
        return "\n".join(lines)


ROOMS = (
    # What people touch.
    Room("spinewise", ("what Python users import",), 30, 58, 190, 54),
    Room("flows/commands", ("the command line, one command a file",), 235, 58, 265, 54),
    Room("flows/orchestration", ("Prefect: flow, retries, deployments",), 515, 58, 250, 54),
    Room("flows/audits", ("tests of the installation and of a release",), 780, 58, 275, 54),
    Room("flows/checks", ("validate, doctor",), 1070, 58, 140, 54),
    Room(
        "flows/runs",
        ("a whole run, from the request to the manifest: run, verify, rerun, from_measurements",),
        30,
        152,
        1180,
        54,
    ),
    # The stages.
    Room(
        "flows/confidential",
        ("count the records, charge the ledger,", "measure, choose; the key's custody;", "accuracy for the agency"),
        30,
        296,
        330,
        88,
        _SECRET,
    ),
    Room(
        "flows/estimation",
        ("from measurements to whole numbers;", "simulated margins"),
        560,
        296,
        300,
        88,
        _PUBLIC,
    ),
    Room(
        "flows/publishing",
        ("tables, microdata, report, manifest:", "every public file"),
        910,
        296,
        300,
        88,
        _PUBLIC,
    ),
    Room("flows/plan", ("errors and cost, before anything is spent",), 560, 400, 300, 54, _PUBLIC),
    Room("flows/execution", ("steps, workers, checkpoints; no statistics",), 910, 400, 300, 54, _PUBLIC),
    # What the stages call.
    Room("pipeline/records", ("confidential files to sparse", "histograms of the leaves"), 30, 526, 330, 71, _SECRET),
    Room(
        "pipeline/privacy",
        ("budget.py: how much noise a share buys", "keys.py: the master key, derivation"),
        30,
        611,
        330,
        71,
        _SECRET,
    ),
    Room("pipeline/privacy/ledger", ("what was spent, append-only",), 30, 692, 330, 54, _SECRET),
    Room("pipeline/privacy/noise", ("exact samplers; also simulate, with public noise",), 30, 756, 330, 54),
    Room("pipeline/privacy/accounting", ("what a budget means, for the manifest",), 30, 820, 330, 54),
    Room("postprocess/linear", ("best linear estimates and", "their variances"), 560, 526, 205, 71, _PUBLIC),
    Room("postprocess/bounds", ("constraints: declared, carried,", "possible or not"), 560, 611, 205, 71, _PUBLIC),
    Room("postprocess/families", ("one parent and its children:", "solved and rounded"), 560, 696, 205, 71, _PUBLIC),
    Room("postprocess/downward", ("level by level, from the top",), 560, 781, 205, 54, _PUBLIC),
    Room("pipeline/reading", ("tables, sums, comparison",), 800, 526, 200, 54, _PUBLIC),
    Room("pipeline/report", ("the report for readers",), 1010, 526, 200, 54, _PUBLIC),
    Room("pipeline/export", ("other layouts",), 800, 590, 200, 54, _PUBLIC),
    Room("pipeline/exchange", ("layouts of 2020, both ways",), 1010, 590, 200, 54, _PUBLIC),
    Room("pipeline/checker", ("the independent check",), 800, 654, 200, 54, _PUBLIC),
    Room("pipeline/audit", ("statistical tests",), 1010, 654, 200, 54, _NEUTRAL),
    Room("pipeline/imports", ("files as they come, to a spec",), 800, 718, 200, 54, _NEUTRAL),
    Room("pipeline/example", ("a synthetic state",), 1010, 718, 200, 54, _NEUTRAL),
    # What all of it stands on.
    Room("pipeline/model", ("frozen values:", "what is measured"), 30, 926, 170, 88),
    Room("pipeline/spec", ("TOML to the model,", "every message"), 215, 926, 170, 88),
    Room("pipeline/inputs", ("the public files", "that a spec names"), 400, 926, 170, 88),
    Room("pipeline/release", ("the run directory and", "the form of every file"), 585, 926, 205, 88),
    Room("pipeline/storage", ("atomic, durable,", "private writing"), 805, 926, 170, 88),
    Room("geography", ("the spine: levels,", "parents, bypassing"), 990, 926, 220, 88),
)


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="arrow" marker-end="url(#tip)"/>'


def _bands() -> list[str]:
    titles = (
        (46, "What people touch"),
        (142, "Wiring"),
        (246, "The stages of a release"),
        (508, "What the stages call"),
        (912, "What everything stands on"),
    )
    return [_text(30, y, title, "band") for y, title in titles]


def _flow() -> list[str]:
    """The way of a number: from the records, through the wall, to the release."""
    return [
        _text(30, 272, "records  →", "file"),
        _text(110, 272, "CONFIDENTIAL", "secret"),
        _text(560, 272, "PUBLIC", "open"),
        _arrow(360, 340, 396, 340),
        '<rect x="400" y="312" width="120" height="56" rx="4" fill="#fff" stroke="#00796b" stroke-dasharray="5 3"/>',
        _text(412, 336, "noisy", "file"),
        _text(412, 354, "measurements", "file"),
        _arrow(520, 340, 556, 340),
        _arrow(860, 340, 906, 340),
        _text(1130, 272, "→  public/", "file"),
        # The wall: no import leads from its right side to its left.
        f'<line x1="460" y1="232" x2="460" y2="306" stroke="{_WALL}" stroke-width="5"/>',
        f'<line x1="460" y1="374" x2="460" y2="874" stroke="{_WALL}" stroke-width="5"/>',
        f'<text x="482" y="640" class="wall" transform="rotate(-90 482 640)" text-anchor="middle">'
        "THE WALL: the right side imports no records, no key, no ledger</text>",
    ]


def picture() -> str:
    """The whole SVG, as text."""
    style = (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:" + _INK + "}"
        ".room{font:600 14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
        ".what{font-size:12.5px}.file{font-size:13px;font-style:italic}"
        ".band{font-size:15px;font-weight:700}.secret{font-size:13px;font-weight:700;fill:#b3261e}"
        ".open{font-size:13px;font-weight:700;fill:#00796b}.wall{font-size:13px;font-weight:700;fill:#b3261e}"
        ".arrow{stroke:" + _INK + ";stroke-width:1.6}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="The rooms of Spinewise: confidential on the left of a wall, public on its right">',
        f"<style>{style}</style>",
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L9,4 L0,8 z" fill="{_INK}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="#ffffff"/>',
        *_bands(),
        *(room.svg() for room in ROOMS),
        *_flow(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), "utf-8")


if __name__ == "__main__":
    main()
