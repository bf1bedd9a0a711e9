"""The project's pages: their code blocks, links and headings, for the tests of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]\[]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
_CODE = re.compile(r"^```.*?^```$", re.M | re.S)
_INLINE_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its page, the line it begins on, its language and its text. Tests know no more than a reader."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def pages() -> list[Path]:
    """README.md, the pages beside it, and every page of docs/."""
    beside = [PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    return [*beside, *sorted((PROJECT / "docs").rglob("*.md"))]


def code_blocks(*languages: str) -> list[CodeBlock]:
    """All blocks in one of the languages, in the order of the pages."""
    found = []
    for page in pages():
        text = page.read_text("utf-8")
        for match in _FENCE.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start()) + 1
                found.append(CodeBlock(page, line, match["language"], match["text"]))
    return found


def links(page: Path) -> list[str]:
    """The targets of the links of a page, outside code."""
    return _LINK.findall(_INLINE_CODE.sub("", _CODE.sub("", page.read_text("utf-8"))))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their texts."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
