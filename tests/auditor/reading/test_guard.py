"""The second program's guard of Parquet files is a copy of the first one's, which decides the same of every file."""

from __future__ import annotations

import ast

from releases.command import PROJECT

#: What the copy has in place of the first program's words.
OTHERS = (
    ("from pipeline.storage.local_name import local_name\n", ""),
    ("local_name(path)", "str(path.absolute())"),
    ("pipeline.errors", "auditor.reading.findings"),
    ("pipeline.storage", "auditor.reading"),
    ("ReleaseError", "FormError"),
)


def test_the_guard_is_the_same() -> None:
    first = (PROJECT / "pipeline" / "storage" / "guard.py").read_text("utf-8")
    for here, there in OTHERS:
        first = first.replace(here, there)
    second = (PROJECT / "auditor" / "reading" / "guard.py").read_text("utf-8")
    assert ast.dump(ast.parse(second)) == ast.dump(ast.parse(first)), "auditor/reading/guard.py is to be copied anew"
