"""The report of an audit, as JSON and as one HTML page that needs nothing else."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pipeline.audit.findings import Audit
from pipeline.errors import InputError
from pipeline.files import canonical_json

__all__ = ["HTML_NAME", "JSON_NAME", "audit_html", "write_audit"]

HTML_NAME = "audit.html"
JSON_NAME = "audit.json"


def write_audit(audit: Audit, folder: Path) -> tuple[Path, Path]:
    """Write both reports into `folder`, which is made if need be; their paths. InputError where that fails."""
    html, json = folder / HTML_NAME, folder / JSON_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        html.write_text(audit_html(audit), encoding="utf-8")
        json.write_bytes(canonical_json(audit.as_dict()))
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written ({error.strerror})") from None
    return html, json


def audit_html(audit: Audit) -> str:
    """The page; all text is escaped."""
    from jinja2 import Environment, StrictUndefined

    template = resources.files("pipeline.audit").joinpath("audit.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(audit=audit, groups=audit.groups())
