"""What in [input] does not fit the schema."""

from __future__ import annotations

from pipeline.model.schema import Schema
from pipeline.records.wide import expand_cells
from pipeline.spec.input.section import InputSpec
from pipeline.spec.problems import Problems, dotted, unknown


def check_input(section: InputSpec, schema: Schema, problems: Problems) -> None:
    """Note what in [input] does not fit the schema; `problems` are the universe's."""
    input_problems, before = problems.at("input"), len(problems.lines)
    for name in section.columns:
        if name not in schema.names:
            input_problems.add(dotted(["columns", name]), unknown("attribute", name, schema.names))
    for name, values in section.values.items():
        if name not in schema.names:
            input_problems.add(dotted(["values", name]), unknown("attribute", name, schema.names))
            continue
        allowed = schema.attribute(name).values
        for text, value in values.items():
            if value not in allowed:
                input_problems.add(dotted(["values", name, text]), unknown(f"value of {name}", value, allowed))
    if section.form == "wide" and len(problems.lines) == before:
        with problems.noted(below=True):
            expand_cells(section.cells, schema, coded=section.coded, values=section.values)
