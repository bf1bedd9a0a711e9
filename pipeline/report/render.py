"""Templates, scripts and numbers as the pages show them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline.privacy.accounting.statement_models import headline


def render(template: str, scripts: Sequence[str], **context: object) -> str:
    """A page of this folder's templates, with its scripts and the policy that allows these scripts and nothing else."""
    texts = [asset(name) for name in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)
    allowed = hashes or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        _environment().get_template(template).render(policy=policy, style=asset("style.css"), scripts=texts, **context)
    )


@cache
def asset(name: str) -> str:
    """The text of a file of the page."""
    return resources.files("pipeline.report").joinpath("assets", name).read_text(encoding="utf-8")


def script_json(content: object) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipeline.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number_text, "persons": persons_text, "percent": percent_text}
    environment.filters["rounded_up"] = headline
    environment.filters |= {"average": average_text, "fine_margin": fine_margin_text}
    return environment


def number_text(value: int) -> str:
    """ "1,234"."""
    return f"{value:,}"


def persons_text(value: float | None) -> str:
    """A margin for people: whole from 10 on, with one decimal below, "?" where it is not known."""
    if value is None:
        return "?"
    if value >= 10 or value == int(value):
        return f"{-int(-value // 1):,}"
    return f"{value:.1f}"


def average_text(value: float | None, decimals: int = 2) -> str:
    """An average, "?" where there is none."""
    return "?" if value is None else f"{value:.{decimals}f}"


def fine_margin_text(value: float | None) -> str:
    """The margin of an average, rounded up to two decimals, or to the first digits of a smaller one."""
    if value is None:
        return "?"
    decimals = next((places for places in range(2, 9) if value >= 5 * 10.0 ** (-places - 1)), 2)
    return f"± {math.ceil(value * 10**decimals - 1e-9) / 10**decimals:.{decimals}f}"


def percent_text(value: float) -> str:
    """ "12 %"; never 0 % or 100 % of what is neither."""
    if 0 < value < 0.01:
        return "< 1 %"
    if 0.99 < value < 1:
        return "> 99 %"
    return f"{100 * value:.0f} %"
