"""Draws docs/images/architecture.svg, the picture of docs/architecture.md: `make docs`.

The rooms are listed here by hand, with what each is for; a test compares the list with the folders. The picture loads
nothing and needs no library, so that the site works offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "architecture.svg"
WIDTH, HEIGHT = 860, 1560
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
    Room("spinewise", ("what Python users import",), 20, 58, 210, 54),
    Room("flows/commands", ("the command line, one command a file",), 240, 58, 295, 54),
    Room("flows/orchestration", ("Prefect: flow, retries, deployments",), 545, 58, 295, 54),
    Room("features/audit", ("tests of installation, release",), 20, 122, 215, 54),
    Room("flows/checks", ("validate, doctor",), 245, 122, 150, 54),
    Room("features/plan", ("errors, before a run",), 405, 122, 155, 54),
    Room("auditor", ("a second program: shares no code",), 570, 122, 270, 54),
    Room("pipeline/runs", ("a whole run, from the request to the manifest: run, verify, rerun",), 20, 216, 820, 54),
    # The stages.
    Room(
        "pipeline/confidential",
        (
            "count the records, charge the",
            "ledger, measure, choose;",
            "the key's custody; accuracy;",
            "secrets read, errors emptied",
        ),
        *(20, 344, 265, 166),
        _SECRET,
    ),
    Room(
        "pipeline/estimation", ("from measurements to whole numbers;", "simulated margins"), 450, 344, 390, 88, _PUBLIC
    ),
    Room(
        "pipeline/publishing", ("tables, microdata, report, manifest: every public file",), 450, 456, 390, 54, _PUBLIC
    ),
    Room("pipeline/cost", ("memory",), 450, 520, 190, 54, _PUBLIC),
    Room("pipeline/execution", ("steps, workers, resuming",), 650, 520, 190, 54, _PUBLIC),
    # What the stages call.
    Room("pipeline/records", ("confidential files to sparse", "histograms of the leaves"), 20, 634, 265, 71, _SECRET),
    Room(
        "pipeline/privacy",
        ("budget.py: what a share buys", "keys.py: the key, derivation"),
        *(20, 715, 265, 71),
        _SECRET,
    ),
    Room("pipeline/privacy/ledger", ("what was spent, append-only",), 20, 796, 265, 54, _SECRET),
    Room("pipeline/privacy/noise", ("exact samplers; also simulate,", "with public noise"), 20, 860, 265, 71),
    Room("pipeline/privacy/accounting", ("what a budget means",), 20, 941, 265, 54),
    Room("postprocess/linear", ("best linear estimates",), 450, 634, 190, 54, _PUBLIC),
    Room("postprocess/bounds", ("constraints, carried",), 650, 634, 190, 54, _PUBLIC),
    Room("postprocess/families", ("a parent's children",), 450, 692, 190, 54, _PUBLIC),
    Room("postprocess/downward", ("level by level",), 650, 692, 190, 54, _PUBLIC),
    Room("features/joins", ("persons and households",), 450, 750, 190, 54, _PUBLIC),
    Room("postprocess/shares", ("public counts, shared out",), 650, 750, 190, 54, _PUBLIC),
    Room("pipeline/reading", ("tables, sums, comparison",), 450, 810, 190, 54, _PUBLIC),
    Room("features/report", ("the report for readers",), 650, 810, 190, 54, _PUBLIC),
    Room("features/exports", ("other layouts",), 450, 874, 190, 54, _PUBLIC),
    Room("pipeline/exchange", ("layouts of 2020",), 650, 874, 190, 54, _PUBLIC),
    Room("auditor/check", ("the independent check of a release, from public files",), 450, 938, 390, 54, _PUBLIC),
    Room("features/imports", ("other files to a spec",), 450, 1002, 190, 54),
    Room("features/example", ("a synthetic state",), 650, 1002, 190, 54),
    # What all of it stands on.
    Room("pipeline/model", ("frozen values: what is measured",), 20, 1102, 266, 54),
    Room("pipeline/spec", ("TOML to the model; every message",), 297, 1102, 266, 54),
    Room("pipeline/inputs", ("the public files of a spec",), 574, 1102, 266, 54),
    Room("pipeline/release", ("the form of every file",), 20, 1166, 266, 54),
    Room("pipeline/storage", ("atomic, durable, private writing",), 297, 1166, 266, 54),
    Room("geography", ("the spine: levels, parents",), 574, 1166, 266, 54),
    Room("pipeline/metadata", ("what the columns of each file are",), 20, 1230, 266, 54),
    Room("pipeline/questions", ("answers: their language and form",), 297, 1230, 266, 54),
    Room("features/fitness", ("errors in the measures of uses",), 574, 1230, 266, 54),
    Room("features/local", ("reports randomised by their senders",), 20, 1294, 266, 54),
    Room("pipeline/signatures", ("what is signed, by whom",), 297, 1294, 266, 54),
    Room("features/shares", ("public counts as facts",), 574, 1294, 266, 54),
    Room("features/years", ("releases over time, one budget",), 20, 1358, 266, 54),
    Room("features/marginals", ("records with many attributes",), 297, 1358, 266, 54),
    Room("features/questions", ("the records asked, for a charge",), 574, 1358, 266, 54),
    Room("features/amounts", ("sums and means of wages",), 297, 1422, 266, 54),
    Room("pipeline/pages", ("what all HTML pages share",), 20, 1422, 266, 54),
    Room("features/cumulative", ("how many up to each value",), 574, 1422, 266, 54),
    Room("postprocess/sums", ("a million cells, on few sums",), 20, 1486, 266, 54, _PUBLIC),
)


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="arrow" marker-end="url(#tip)"/>'


def _bands() -> list[str]:
    titles = (
        (44, "What people touch"),
        (204, "Wiring"),
        (302, "The stages of a release"),
        (620, "What the stages call"),
        (1088, "What everything stands on"),
    )
    return [_text(20, y, title, "band") for y, title in titles]


def _flow() -> list[str]:
    """The way of a number: from the records, through the wall, to the release."""
    return [
        _text(20, 330, "records  →", "file"),
        _text(100, 330, "CONFIDENTIAL", "secret"),
        _text(450, 330, "PUBLIC", "open"),
        _arrow(285, 388, 307, 388),
        '<rect x="310" y="360" width="116" height="56" rx="4" fill="#fff" stroke="#00796b" stroke-dasharray="5 3"/>',
        _text(320, 384, "noisy", "file"),
        _text(320, 402, "measurements", "file"),
        _arrow(426, 388, 447, 388),
        _arrow(645, 432, 645, 453),
        _text(775, 448, "→  public/", "file"),
        # The wall: no import leads from its right side to its left.
        f'<line x1="366" y1="288" x2="366" y2="352" stroke="{_WALL}" stroke-width="5"/>',
        f'<line x1="366" y1="424" x2="366" y2="1056" stroke="{_WALL}" stroke-width="5"/>',
        '<text x="392" y="760" class="wall" transform="rotate(-90 392 760)" text-anchor="middle">'
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
