"""The report of an audit, as JSON and as one HTML page that needs nothing else.

What the checks of a finished release are called, and what they say where all is well, for pages in other languages.

Findings are worded in English, where they are made, and audit.json has them so. The page recognises them by these
templates, as it does the sentences of statements. What a check that failed has found stays in English: it names files
and numbers for the people who repair what is wrong.
"""

from __future__ import annotations

import math
from pathlib import Path

from features.audit.findings import NOT_KNOWN, Audit
from pipeline.errors import InputError, ReleaseError
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.texts.message import marked
from pipeline.model.texts.sentences import sentence
from pipeline.pages.templates import page_template
from pipeline.storage.durable import make_folder
from pipeline.storage.files import canonical_json, write_bytes

#: Of names in `about`, groups, checks, subjects and details; of two that fit, the more special one comes first.
TEMPLATES = (
    marked("Audit of the release {name}"),
    marked("packages"),
    marked("release"),
    marked("key"),
    marked("ledger"),
    marked("for"),
    marked("given"),
    marked("not given"),
    marked("compared"),
    marked("not compared; give --ledger"),
    marked("computed by spinewise verify alone"),
    marked("compared in form alone"),
    marked("none: the spec names no dataset"),
    marked("the agency alone: computed from true counts"),
    marked("independent"),
    marked("attack"),
    marked("files"),
    marked("truth"),
    marked("noise found"),
    marked("streams apart"),
    marked("nothing restricted"),
    marked("verified"),
    marked("manifest"),
    marked("metadata"),
    marked("headers"),
    marked("solver notes"),
    marked("software"),
    marked("statements"),
    marked("key space"),
    marked("tails"),
    marked("noise redrawn"),
    marked("choices redrawn"),
    marked("records reconstructed"),
    marked("a person guessed"),
    marked("odds"),
    marked("form"),
    marked("spread of each measurement"),
    marked("distribution of all residuals"),
    marked("every pair at every shift"),
    marked("Parquet files"),
    marked("measurements, invariants, spine"),
    marked("universes"),
    marked("one person in all universes"),
    marked("households"),
    marked("commitment and records"),
    marked("master key"),
    marked("all residuals"),
    marked("measurements"),
    marked("the release"),
    marked("one answer or another"),
    marked("charge"),
    marked("charges"),
    marked("chain"),
    marked("memory"),
    marked("receipt known"),
    marked("{universe}: one answer or another"),
    marked("{universe}: noise"),
    marked("{universe}: account"),
    marked("{universe}: clip"),
    marked("{n} events"),
    marked("nothing but rows and headers"),
    marked("those installed here"),
    marked("a public test key: not searched"),
    marked("not one of the keys that numbers of {bits} bits give in twelve ways"),
    marked("nothing to test"),
    marked("nothing to try"),
    marked("{n} residuals; notices {noticed}"),
    marked("both tails cut at 2^-{depth} or nearer"),
    marked("the upper tail cut at 2^-{depth} or nearer"),
    marked("the lower tail cut at 2^-{depth} or nearer"),
    marked("no cut tail"),
    marked("{n} numbers drawn again, each the same, {m} of them to within one"),
    marked("{n} numbers drawn again, each the same"),
    marked("{n} choices and {m} numbers drawn again"),
    marked("follows from the measurements"),
    marked("{shares}; {blind}% by who knows only sizes and shares; {n} records"),
    marked("{share}% from the best linear estimate"),
    marked("{share}% from the published counts"),
    marked("{share}% if there were no noise"),
    marked("How much better can somebody guess who knows everybody else?"),
    marked(
        "Of two possibilities that were equally likely, the attack names the right one in {share}% of cases: its odds "
        "are {odds} to 1."
    ),
    marked(
        "The release promises that odds become at most {most}-fold (epsilon = {epsilon}, except with probability "
        "{delta}); without noise it would always be right."
    ),
    marked(
        "The release promises that odds become at most {most}-fold (epsilon = {epsilon}); without noise it would "
        "always be right."
    ),
    marked("No attack on the stated noise exceeds {best}%."),
    marked("Whether it exceeds the promise is not tested: only {n} of the guesses are independent of each other."),
    marked("{share}% of {n} guesses right, the stated noise allows {most}%"),
)


__all__ = ["HTML_NAME", "JSON_NAME", "audit_html", "write_audit"]

HTML_NAME = "audit.html"
JSON_NAME = "audit.json"


def write_audit(audit: Audit, folder: Path, *, private: bool = False) -> tuple[Path, Path]:
    """Write both reports into `folder`, which is created if it does not exist; returns their paths.

    Args:
        audit: the findings.
        folder: where audit.html and audit.json go.
        private: for their owner only, since the findings were computed from true counts.

    Raises:
        InputError: they cannot be written.
    """
    html, json = folder / HTML_NAME, folder / JSON_NAME
    try:
        make_folder(folder, private=private)
        write_bytes(html, audit_html(audit).encode(), folder, private=private)
        write_bytes(json, canonical_json(audit.as_dict()), folder, private=private)
    except (OSError, ReleaseError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--out {folder}: cannot be written ({why})") from None
    return html, json


def audit_html(audit: Audit) -> str:
    """The page, in the language of the release's report; all text is escaped."""
    texts = texts_in(audit.language)
    return page_template("features.audit", "audit.html.j2", texts).render(
        audit=audit,
        groups=audit.groups(),
        number=lambda value: _number(texts, value),
        found=lambda words: sentence(texts, words, TEMPLATES),
    )


def _number(texts: Texts, value: float | None) -> str:
    """A value or limit to three digits; empty where a check has none."""
    if value is None:
        return ""
    return texts.numerals.digits(f"{value:.3g}") if math.isfinite(value) else texts(NOT_KNOWN)
