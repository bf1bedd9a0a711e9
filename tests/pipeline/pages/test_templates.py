"""What is put into a script of a page cannot end it."""

from __future__ import annotations

from pipeline.pages.templates import script_json


def test_json_cannot_end_its_script() -> None:
    assert "<" not in script_json({"a": "</script><!--"})
