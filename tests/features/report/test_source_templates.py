"""What the report shows of a source is a template of the source's, with macros of the same names."""

from __future__ import annotations

import re

import pytest
from jinja2.runtime import Macro

from pipeline.confidential.parts import installed_parts
from pipeline.model.source import Source
from pipeline.model.texts.catalogue import texts_in
from pipeline.pages.templates import asset, page_template


@pytest.mark.parametrize("source", installed_parts())
def test_a_source_has_every_macro_that_the_report_calls_and_no_other(source: type[Source]) -> None:
    module = page_template(*source.template, texts_in("en")).module
    macros = {name: len(one.arguments) for name, one in vars(module).items() if isinstance(one, Macro)}
    called = re.findall(r"source\.(\w+)\(([^)]*)\)", asset("report.html.j2", "features.report"))
    assert len(called) == 8
    assert macros == {name: len(arguments.split(",")) for name, arguments in called}
