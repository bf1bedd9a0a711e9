"""What the site needs besides docs/: README, its neighbours and the example specs as pages, and links to them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_PROJECT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
#: Folders and files outside docs/ -> the page that stands for them.
_PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples": "examples.md",
    "LICENSE": "license.md",
}
_EXAMPLES = "After reading this page you can start from a spec for real data. Each runs beside the data that it names."
#: Pages that the search finds after all others, since they are for who reads the code: the API reference and its like.
_LAST = (
    *("reference/", "decisions/", "architecture.md", "mathematics.md", "testplan.md", "dependencies.md"),
    *("contributing.md", "changelog.md", "license.md"),
)
#: Their part of the weight of others; a title weighs a thousand times what its text does.
_WEIGHT_OF_LAST = 1e-6
#: Search in pages that are opened from files.
_SHIM = "iframe-worker.js"
#: Those that are taken as they are.
_AS_THEY_ARE = [name for name in _PAGES if name.endswith(".md")]


def on_config(config: Any) -> Any:
    """All decisions, and pages that `nav` does not name, are added to the navigation."""
    decisions = ["decisions/index.md", *sorted(f"decisions/{p.name}" for p in _docs("decisions") if p.stem != "index")]
    _replace(config["nav"], "decisions/", decisions)
    known = set(_texts(config["nav"]))
    others = sorted(p.name for p in _docs(".") if p.name not in known)
    config["nav"] += [{"More": others}] if others else []
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from files outside docs/."""
    specs = sorted((_PROJECT / "examples").glob("*.toml"))
    shown = "\n\n".join(f"## {path.name}\n\n```toml\n{path.read_text('utf-8')}```" for path in specs)
    made = {
        **{_PAGES[name]: (_PROJECT / name).read_text("utf-8") for name in _AS_THEY_ARE},
        "examples.md": f"# Example specs\n\n{_EXAMPLES}\n\n{shown}\n",
        "license.md": f"# Licence\n\n```\n{(_PROJECT / 'LICENSE').read_text('utf-8')}```\n",
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    script = (_PROJECT / "docs" / "site" / _SHIM).read_text("utf-8")
    files.append(File.generated(config, f"javascripts/{_SHIM}", content=script))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Redirect links out of docs/ to the pages that stand for their targets, and weigh the page for the search."""
    if page.file.src_uri.startswith(_LAST):
        page.meta.setdefault("search", {})["boost"] = _WEIGHT_OF_LAST
    source = "" if page.file.src_uri in _PAGES.values() else "docs"
    here = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(source, here, match["target"]))
        first = target.split("/")[0]
        if target.startswith("docs/"):
            found = target.removeprefix("docs/")
        elif first in _PAGES:
            found = _PAGES[first]
        else:
            return match[0]
        return posixpath.relpath(found, here or ".") + (match["anchor"] or "")

    return _LINK.sub(link, markdown)


def _docs(folder: str) -> list[Path]:
    return list((_PROJECT / "docs" / folder).glob("*.md"))


def _replace(nav: Any, name: str, pages: list[str]) -> None:
    for entry in nav if isinstance(nav, list) else []:
        for title, found in entry.items() if isinstance(entry, dict) else ():
            if found == name:
                entry[title] = pages
            else:
                _replace(found, name, pages)


def _texts(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [text for entry in (nav.values() if isinstance(nav, dict) else nav) for text in _texts(entry)]
