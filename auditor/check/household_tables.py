"""Published tables of persons by their households, counted again from the two files of microdata.

Without microdata nobody can say who lives where: then counts must be whole, add up from children to parents, and with
those who live in other households be as many persons as the histogram has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from auditor.check.answers import read_counts
from auditor.check.households import Housed
from auditor.reading.counts import Counts, LevelFile
from auditor.reading.files import Files
from auditor.reading.findings import Findings, surplus
from auditor.reading.places import Places
from auditor.reading.spec import Crossed
from auditor.reading.spine import Level


def recounted(table: Crossed, housed: Housed) -> Counts:
    """The counts of a table in the leaves, from persons and the households that they live in."""
    cells = housed.homes.cells[housed.members.geounits]
    known = cells >= 0
    answer = table.persons.of_cell[housed.members.columns] * table.households.size
    answer = answer + table.households.of_cell[np.maximum(cells, 0)]
    keys = housed.homes.leaves[housed.members.geounits] * len(table.labels) + answer
    return Counts.summed(len(table.labels), keys[known], housed.members.counts[known])


def check_household_table(
    files: Files,
    run: Places,
    table: Crossed,
    levels: Sequence[Level],
    persons: Mapping[str, Counts],
    housed: Housed | None,
    findings: Findings,
) -> None:
    """Check a table at all its levels.

    Args:
        files: reads them.
        run: with the files' names.
        table: what the spec demands.
        levels: of the spine, top first.
        persons: level -> histogram of the persons, of those that can be read.
        housed: who lives where; None without microdata.
        findings: takes what is wrong.

    Raises:
        FormError: a file is missing or damaged.
    """
    required = None if housed is None else recounted(table, housed)
    why = "the persons of such households in the microdata"
    for number, level in reversed(list(enumerate(levels))):
        if level.name in table.levels:
            found = _read(files, run, table, level, persons.get(level.name), findings)
            if required is not None:
                name = files.name(run.household_table(table.name, level.name))
                _compare(findings, name, f"counts that are not {why}", why, level, table, found, required)
            if housed is None:
                required, why = found, f"the sum over level {level.name!r}"
        if required is not None and number:
            required = required.raised(level)


def _read(
    files: Files,
    run: Places,
    table: Crossed,
    level: Level,
    persons: Counts | None,
    findings: Findings,
) -> Counts:
    """The counts of a level's file; more persons of an answer than there are is reported."""
    path = run.household_table(table.name, level.name)
    labels, theirs = table.labels, table.households.size
    file = LevelFile(files, path, level, findings, once=True)
    counted = findings.check(file.name, "counts that are not whole numbers from 0")
    many = findings.check(file.name, "numbers of persons that are more than there are")
    own = None if persons is None else persons.answers(table.persons)
    keys, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part, geounits in file.parts(labels):
        columns = [read_counts(part.column(label), label, geounits, file, counted) for label in labels]
        counts = np.maximum(np.stack(columns, axis=1), 0)
        if own is not None:
            there, here = own.dense(geounits), counts.reshape(len(counts), -1, theirs).sum(axis=2)

            def sentence(at: tuple[int, int], geounits=geounits, here=here, there=there) -> str:  # type: ignore[no-untyped-def]
                return (
                    f"{level.label(geounits[at[0]])}, {table.persons.labels[at[1]]!r}: "
                    f"{surplus(int(here[at]), int(there[at]))} (all persons of the histogram)"
                )

            many.add((geounits >= 0)[:, None] & (here > there), sentence)
        places = geounits[:, None] * len(labels) + np.arange(len(labels))
        keys.append(places[geounits >= 0].ravel())
        values.append(counts[geounits >= 0].ravel())
    return Counts.summed(len(labels), np.concatenate(keys), np.concatenate(values))


def _compare(
    findings: Findings,
    name: str,
    what: str,
    why: str,
    level: Level,
    table: Crossed,
    found: Counts,
    required: Counts,
) -> None:
    keys, labels = np.union1d(found.keys, required.keys), table.labels
    actual, right = found.at(keys), required.at(keys)
    findings.check(name, what).add(
        actual != right,
        lambda at: (
            f"{level.label(int(keys[at]) // len(labels))}, {labels[int(keys[at]) % len(labels)]!r}: "
            f"{surplus(int(actual[at]), int(right[at]))} ({why})"
        ),
    )
