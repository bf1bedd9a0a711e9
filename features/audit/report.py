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
from pipeline.model.texts.message import all_marked
from pipeline.model.texts.sentences import sentence
from pipeline.pages.templates import page_template
from pipeline.storage.durable import make_folder
from pipeline.storage.files import canonical_json, write_bytes

#: Of names in `about`, groups, checks, subjects and details; of two that fit, the more special one comes first.
TEMPLATES = all_marked(
    "Audit of the release {name}",
    "packages",
    "release",
    "key",
    "ledger",
    "for",
    "given",
    "not given",
    "compared",
    "not compared; give --ledger",
    "computed by spinewise verify alone",
    "compared in form alone",
    "none: the spec names no dataset",
    "the agency alone: computed from true counts",
    "independent",
    "attack",
    "files",
    "truth",
    "noise found",
    "streams apart",
    "nothing restricted",
    "verified",
    "manifest",
    "metadata",
    "headers",
    "solver notes",
    "software",
    "statements",
    "key space",
    "tails",
    "noise redrawn",
    "choices redrawn",
    "records reconstructed",
    "a person guessed",
    "odds",
    "form",
    "spread of each measurement",
    "distribution of all residuals",
    "every pair at every shift",
    "Parquet files",
    "measurements, invariants, spine",
    "universes",
    "one person in all universes",
    "households",
    "commitment and records",
    "master key",
    "all residuals",
    "measurements",
    "the release",
    "one answer or another",
    "charge",
    "charges",
    "chain",
    "memory",
    "receipt known",
    "{universe}: one answer or another",
    "{universe}: noise",
    "{universe}: account",
    "invariants and clips",
    "bounds and joins",
    "series",
    "the release before",
    "{n} events",
    "nothing but rows and headers",
    "a public test key: not searched",
    "not one of the keys that numbers of {bits} bits give in twelve ways",
    "nothing to test",
    "nothing to try",
    "{n} residuals; notices {noticed}",
    "both tails cut at 2^-{depth} or nearer",
    "the upper tail cut at 2^-{depth} or nearer",
    "the lower tail cut at 2^-{depth} or nearer",
    "no cut tail",
    "{n} of {all} numbers drawn again, each the same, {m} of them to within one",
    "{n} of {all} numbers drawn again, each the same",
    "{n} choices and {m} numbers drawn again",
    "follows from the measurements",
    "{shares}; {blind}% by who knows only sizes and shares; {n} records",
    "{share}% from the best linear estimate",
    "{share}% from the published counts",
    "{share}% if there were no noise",
    "How much better can somebody guess who knows everybody else?",
    (
        "Of two possibilities that were equally likely, the attack names the right one in {share}% of cases: its odds "
        "are {odds} to 1."
    ),
    (
        "The release promises that odds become at most {most}-fold (epsilon = {epsilon}, except with probability "
        "{delta}); without noise it would always be right."
    ),
    (
        "The release promises that odds become at most {most}-fold (epsilon = {epsilon}); without noise it would "
        "always be right."
    ),
    "No attack on the stated noise exceeds {best}%.",
    "Whether it exceeds the promise is not tested: only {n} of the guesses are independent of each other.",
    "{share}% of {n} guesses right, the stated noise allows {most}%",
)


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
