"""The report of an audit, as JSON and as one HTML page that needs nothing else."""

from __future__ import annotations

import math
from pathlib import Path

from features.audit.findings import NOT_KNOWN, Audit
from features.audit.said import TEMPLATES
from pipeline.errors import InputError, ReleaseError
from pipeline.model.pages.templates import page_template
from pipeline.model.texts.catalogue import Texts, texts_in
from pipeline.model.texts.sentences import sentence
from pipeline.storage.files import canonical_json, make_folder, write_bytes

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
        make_folder(folder, mode=0o700 if private else 0o777)
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
