"""Templates, scripts and numbers as the pages show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from pipeline.model.pages.templates import content_policy, page_template
from pipeline.model.texts.catalogue import Texts


def render(
    template: str,
    scripts: Sequence[str],
    words: Texts,
    *,
    loads: bool = False,
    package: str = "pipeline.report",
    own: Sequence[str] = (),
    **context: object,
) -> str:
    """A page of a package's templates, with its scripts and the policy that allows these scripts and nothing else.

    Args:
        template: file of the package's `assets/`.
        scripts: files of this package's `assets/`.
        loads: its scripts may load others, which hold data.
        package: that the template is in.
        own: scripts of that package's `assets/`, which follow the others.
        words: of the page's language; templates have them as `_(...)`, scripts as `text(...)`.
        context: what the template names.
    """
    texts = [*(asset(name) for name in scripts), *(asset(name, package) for name in own)]
    spoken = script_json(words.of_scripts("\n".join(texts)))
    page = page_template(package, template, words)
    return page.render(
        policy=content_policy(texts, loads=loads),
        scripts=texts,
        script_texts=spoken,
        loads=loads,
        **context,
    )


@cache
def asset(name: str, package: str = "pipeline.report") -> str:
    """The text of a file of the page."""
    return resources.files(package).joinpath("assets", name).read_text(encoding="utf-8")


def script_json(content: object) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
