"""An independent check that a release keeps every constraint of its spec.

Only what is public is read, and nothing is shared with the programs that made the release: neither its solver nor its
readers. So a slip in one of them cannot hide itself here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from auditor.check.households import Housed, RecordFile, check_household_table, check_households, key_columns
from auditor.check.marginals import DRAWN, check_marginals
from auditor.check.published import PublicRelease
from auditor.check.ratios import Ratio, averages, check_ratios, counted_by, table_columns
from auditor.check.relations import check_relations, check_sums
from auditor.check.reports import check_reports
from auditor.check.tables import check_cumulative, check_table
from auditor.check.update import check_update
from auditor.draws import draw_problems
from auditor.products import changed_files, strange_files
from auditor.reading.cells import Query
from auditor.reading.counts import LevelFile, compare, place, read_due, read_histogram, read_microdata
from auditor.reading.files import Files, Places
from auditor.reading.findings import Findings, FormError, understood
from auditor.reading.spec import PublicUniverse, Table, public_spec, read_json
from auditor.reading.spine import Level, read_levels
from auditor.reading.values import FloatArray


def check_release(root: Path) -> list[str]:
    """What is wrong with a release, one sentence each; empty if every constraint of its spec holds.

    Args:
        root: the run's directory, or the public/ folder of one.

    Raises:
        FormError: there is no finished release.
    """
    return examine(root).problems


def examine(root: Path) -> Findings:
    """All checks of a release: `check_release` with the number of checks.

    The spine is a tree, and each area of it that has a name has one; counts are whole numbers from 0; every parent is
    the sum of its children in every cell; tables and microdata agree with the histograms; invariants, structural zeros,
    bounds and joins are kept exactly; the manifest lists the draws for which the spec calls, and no others. A version
    that was made with answers has the measurements of the one before and those answers, states what they cost together,
    and keeps what it replaces.

    Raises:
        FormError: there is no finished release.
    """
    run = _run_at(root)
    files = Files(run.public)
    findings = files.findings
    with findings.noting_errors():
        manifest = read_json(run.manifest, "public/manifest.json")
        with understood("public/manifest.json: its spec"):
            spec = public_spec(manifest["spec"])
        levels = read_levels(files, run.spine, spec.levels, spec.prefixes)
        levels = tuple(_named(files, run, level, spec.names.get(level.name, ())) for level in levels)
        published = PublicRelease(
            files, run, manifest, spec, levels, {universe.name: {} for universe in spec.universes}
        )
        for universe in spec.universes:
            with findings.noting_errors():
                _check_universe(published, universe)
        check_sums(published)
        check_relations(published)
        for check in (check_marginals, _check_sizes, _check_amounts, check_reports):
            with findings.noting_errors():
                check(published)
        _check_households(published)
        _check_shares(published)
        with findings.noting_errors():
            drawn = findings.check("public/manifest.json", "draws that are not those of the spec")
            for sentence in draw_problems(manifest, levels, published.places):
                drawn.fail(sentence)
        check_update(published)
        with understood("public/manifest.json: its spec"):
            unknown = findings.check("public", "files that the spec does not give")
            for path in strange_files(run.root, manifest, spec):
                unknown.fail(f"{files.name(path)} does not follow from the spec; no such file is part of the release")
        with understood("public/manifest.json: its files"):
            findings.changed += changed_files(run.public, dict(manifest["files"]))
    return findings


def _run_at(root: Path) -> Places:
    if not root.is_dir():
        raise FormError(f"{root}: no such folder; the directory of a release is needed")
    whole = root.absolute()
    run = Places(whole.parent if whole.name == "public" and not (whole / "public").exists() else root)
    if not run.manifest.is_file():
        raise FormError(f"{root}: no finished release is here; {run.manifest} is missing")
    return run


def _named(files: Files, run: Places, level: Level, languages: Sequence[str]) -> Level:
    """A level with the names that are published of it; whatever is wrong with these is reported."""
    columns = [f"name:{language}" if language else "name" for language in languages]
    first = [""] * len(level.codes)
    with files.findings.noting_errors():
        file = LevelFile(files, run.of("", "names", level.name), level, once=True)
        for rows, geounits in file.parts(columns) if columns else ():
            texts = [[text or "" for text in rows.column(column).to_pylist()] for column in columns]
            for column, own in zip(columns, texts, strict=True):
                said = file.saying(f"has no text in column {column!r}")
                file.check("names that are empty").add(np.array(own, dtype=np.str_) == "", said)
            for geounit, text in zip(geounits.tolist(), texts[0], strict=True):
                if geounit >= 0:
                    first[geounit] = text
    return replace(level, names=tuple(first))


def _check_universe(published: PublicRelease, universe: PublicUniverse) -> None:
    """The checks of one universe by itself. Only the checks that need an unreadable file are left out."""
    files, counts = published.files, published.counts[universe.name]
    for level in published.levels:
        with files.findings.noting_errors():
            path = published.histogram(universe, level)
            counts[level.name] = read_histogram(files, path, level, universe)
    if published.spec.microdata and universe.amount is None:
        with files.findings.noting_errors():
            _check_microdata(published, universe)
    for table, level in product(universe.tables, published.levels):
        if level.name in table.levels:
            _check_table(published, universe, table, level)
    for name, _, queries in universe.levels:
        for query, _, where_positive in queries:
            if where_positive:
                with files.findings.noting_errors():
                    _check_positive(published, universe, name, query)


def _records(published: PublicRelease, universe: PublicUniverse) -> RecordFile:
    """The microdata of a universe; of marginals whole records, which stand with the release's own universe."""
    name, columns = universe.name, key_columns(universe.name, published.spec.joined)
    if (whole := published.spec.marginals) is not None:
        name, columns = "", tuple(name for name in whole if name not in universe.cells.names)
        columns += tuple(amount + DRAWN for amount in published.spec.amounts)
    return RecordFile(published.places.of(name, "microdata"), universe.cells, columns, published.records(universe))


def _check_microdata(published: PublicRelease, universe: PublicUniverse) -> None:
    files, leaves, own = published.files, published.levels[-1], _records(published, universe)
    records = read_microdata(files, own.path, leaves, own.cells, own.most, own.columns)
    files.check(own.path, "records that cannot be").add(
        universe.impossible[records.columns],
        lambda at: (
            f"{place(leaves, own.cells.size, own.cells.label, records.keys[at])}: {records.counts[at]:,} records, and "
            f"the structural zeros of {universe.title} leave none"
        ),
    )
    if (released := published.counts[universe.name].get(leaves.name)) is not None:
        check = files.check(own.path, f"cells with another number of records than {universe.title} has")
        why = f"the count in {files.name(published.histogram(universe, leaves))}"
        compare(check, why, leaves, own.cells.label, records, released)


def _check_table(published: PublicRelease, universe: PublicUniverse, table: Table, level: Level) -> None:
    """Compare a table, and what continues it cumulatively, with sums of the histogram's cells."""
    files, margins, cells = published.files, published.spec.margins, published.counts[universe.name].get(level.name)
    path, answers = published.places.of(universe.name, "tables", table.name, level.name), table.answers
    with files.findings.noting_errors():
        required = None if cells is None else cells.answers(answers)
        check_table(files, path, level, answers, required, margins=margins, least=universe.least)
    if table.cumulated:
        with files.findings.noting_errors():
            paths = published.places.of(universe.name, "cumulative", table.name, level.name), path
            check_cumulative(files, paths, level, answers, table.cumulated, cells, margins=margins)


def _check_positive(published: PublicRelease, universe: PublicUniverse, name: str, query: Query) -> None:
    """Compare which answers of a level were drawn with the published histogram of the level above."""
    level, path = published.level(name), published.places.answers(universe.name, "positive", name, query.name)
    above = published.levels[published.levels.index(level) - 1].name
    if (released := published.counts[universe.name].get(above)) is None:
        return
    *_, wrong = read_due(published.files, path, level, query, released)
    check = published.files.check(path, "answers that do not follow from the release")
    for sentence in wrong:
        check.fail(f"{published.files.name(path)}: {sentence} (level {above!r})")


def _check_sizes(published: PublicRelease) -> None:
    """Compare the average sizes of households of every level with the tables, where their members are all persons."""
    for companion, level in product(published.spec.joined, published.levels):
        if (found := averages(published.spec, companion, level.name)) is not None:
            size, *numbers = found
            above, below = (
                _columns(published, published.spec.universe(name), table, answers, level, [answers.labels[answer]])[0]
                for name, (table, answers, answer) in zip(("", companion), numbers, strict=True)
            )
            ratio = Ratio(("persons", "households", "average"), above, below, (size.least, size.most))
            path = published.places.of("", "household_sizes", companion, level.name)
            check_ratios(published.files, path, level, [ratio])


def _columns(
    published: PublicRelease, universe: PublicUniverse, table: str, answers: Query, level: Level, labels: Sequence[str]
) -> list[dict[str, FloatArray]]:
    """Columns of a table of a level, see `table_columns`."""
    path = published.places.of(universe.name, "tables", table, level.name)
    return table_columns(published.files, path, answers, level, published.spec.margins, labels)


def _check_amounts(published: PublicRelease) -> None:
    """Compare the files of sums and means of amounts with the tables."""
    files, main = published.files, published.spec.universe("")
    for universe in published.spec.universes:
        if (amount := universe.amount) is None:
            continue
        cells = main.cells.cells_of(universe.cells)
        for level, (table, answers, names, _) in product(published.levels, universe.tables):
            if level.name not in names:
                continue
            with files.findings.noting_errors():
                sums = _columns(published, universe, table, answers, level, answers.labels)
                counts: list[dict[str, FloatArray]] | list[None] = [None] * answers.size
                if (counted := counted_by(main, answers, level.name, cells)) is not None:
                    counts = _columns(published, main, counted, answers, level, answers.labels)
                limits, unit = (amount.first, amount.last), float(amount.unit)
                ratios = [
                    Ratio((f"{label}:sum", f"{label}:count", f"{label}:mean"), above, below, limits, unit)
                    for label, above, below in zip(answers.labels, sums, counts, strict=True)
                ]
                path = published.places.of("", "amounts", universe.name, table, level.name)
                check_ratios(files, path, level, ratios, sums=True)


def _check_households(published: PublicRelease) -> None:
    """Compare the households that persons have the number of with the joins; and tables of persons by household."""
    spec, files, housed = published.spec, published.files, dict[str, Housed]()
    for companion in spec.joined if spec.microdata else ():
        with files.findings.noting_errors():
            limits = [(group, join.others) for join in spec.joins_with(companion) for group in join.groups]
            own, theirs = (_records(published, spec.universe(name)) for name in ("", companion))
            column = own.columns[spec.joined.index(companion)]
            housed[companion] = check_households(files, published.levels[-1], own, theirs, column, limits)
    for table in spec.household_tables:
        with files.findings.noting_errors():
            if table.companion in housed or not spec.microdata:
                check_household_table(published, table, housed.get(table.companion))


def _check_shares(published: PublicRelease) -> None:
    """Check the file of each share that the spec uses: numbers from 0."""
    files = published.files
    for share, (level, n_columns) in published.spec.shares.items():
        path = published.places.of("", "shares", share)
        with files.findings.noting_errors():
            file = LevelFile(files, path, published.level(level), once=True)
            columns = [f"number_{number + 1}" for number in range(n_columns)]
            for rows, _ in file.parts(columns):
                for column in columns:
                    values = rows.column(column)
                    if not pa.types.is_float64(values.type):
                        raise FormError(f"{file.name}: column {column!r} holds {values.type}; numbers are required")
                    numbers = values.fill_null(np.nan).to_numpy()
                    told = file.saying("has ", values, "; numbers from 0 are allowed")
                    check = file.check("numbers that are none, or negative")
                    check.add(~(np.isfinite(numbers) & (numbers >= 0)), told)
