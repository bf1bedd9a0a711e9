"""An independent check that a release keeps every constraint of its spec.

Only what is public is read, and nothing is shared with the programs that made the release: neither its solver nor its
readers. So a slip in one of them cannot hide itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.check.households import Housed, RecordFile, check_household_table, check_households, key_columns
from auditor.check.marginals import check_marginals
from auditor.check.ratios import Ratio, check_ratios, counted_by, number_of, sized, table_columns
from auditor.check.relations import check_bound, check_clip, check_group, check_invariant
from auditor.check.tables import check_cumulative, check_table
from auditor.check.update import check_update
from auditor.draws import draw_problems
from auditor.reading.cells import Query, joined_groups
from auditor.reading.counts import (
    Counts,
    LevelFile,
    compare,
    due_answers,
    read_histogram,
    read_microdata,
    read_positive,
    wrong_answers,
)
from auditor.reading.files import Files, Places, UniversePlaces
from auditor.reading.findings import Findings, FormError
from auditor.reading.spec import Amount, Bound, PublicSpec, PublicUniverse, read_json, read_public_spec, understood
from auditor.reading.spine import Level, read_levels


def with_names(
    files: Files, run: Places, spec: PublicSpec, levels: tuple[Level, ...], findings: Findings
) -> tuple[Level, ...]:
    """The levels with the names that are published; whatever is wrong with these is reported."""
    return tuple(
        _named(files, run, level, spec.names[level.name], findings) if level.name in spec.names else level
        for level in levels
    )


def _named(files: Files, run: Places, level: Level, languages: tuple[str, ...], findings: Findings) -> Level:
    columns = [f"name:{language}" if language else "name" for language in languages]
    first = [""] * len(level.codes)
    with findings.noting_errors():
        file = LevelFile(files, run.names(level.name), level, findings, once=True)
        named = findings.check(file.name, "names that are empty")
        for rows, geounits in file.parts(columns):
            texts = [[text or "" for text in rows.column(column).to_pylist()] for column in columns]
            for column, own in zip(columns, texts, strict=True):
                named.add(np.array(own, dtype=np.str_) == "", file.saying(f"has no text in column {column!r}"))
            for geounit, text in zip(geounits.tolist(), texts[0], strict=True):
                if geounit >= 0:
                    first[geounit] = text
    return replace(level, names=tuple(first))


def check_shares(files: Files, run: Places, spec: PublicSpec, levels: tuple[Level, ...], findings: Findings) -> None:
    """Check the file of each share that the spec uses."""
    by_name = {level.name: level for level in levels}
    for share, (of_level, n_columns) in spec.shares.items():
        path = run.universe("").shares(share)
        files.seen.add(path)
        if of_level in by_name:
            with findings.noting_errors():
                _check_shares(LevelFile(files, path, by_name[of_level], findings, once=True), n_columns, findings)


def _check_shares(file: LevelFile, n_columns: int, findings: Findings) -> None:
    columns = [f"number_{number + 1}" for number in range(n_columns)]
    counted = findings.check(file.name, "numbers that are none, or negative")
    for rows, _ in file.parts(columns):
        for column in columns:
            values = rows.column(column)
            if not pa.types.is_float64(values.type):
                raise FormError(f"{file.name}: column {column!r} holds {values.type}; numbers are required")
            numbers = values.fill_null(np.nan).to_numpy()
            told = file.saying("has ", values, "; numbers from 0 are allowed")
            counted.add(~(np.isfinite(numbers) & (numbers >= 0)), told)


def check_positive(
    files: Files,
    folder: UniversePlaces,
    universe: PublicUniverse,
    levels: tuple[Level, ...],
    counts: Mapping[str, Counts],
    findings: Findings,
) -> None:
    """Compare what was drawn of a universe with its published histograms `counts`, level by level."""
    for name, query in universe.positive:
        with findings.noting_errors():
            number = [level.name for level in levels].index(name)
            level, above = levels[number], counts.get(levels[number - 1].name)
            path = folder.answers("positive", name, query.name)
            files.seen.add(path)
            if above is None:
                continue
            due = due_answers(above, query, level)
            most = int(np.bincount(due // query.size, minlength=1).max())
            keys, _ = read_positive(files, path, level, query, most, findings)
            check = findings.check(files.name(path), "answers that do not follow from the release")
            for sentence in wrong_answers(keys, due, query, level):
                check.fail(f"{files.name(path)}: {sentence} (level {levels[number - 1].name!r})")


#: Folders of a universe with real-valued or noisy numbers, which need not keep anything.
_UNCHECKED = ("measurements", "selected", "estimates", "draws")


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
    files, findings = Files(run.public), Findings()
    with findings.noting_errors():
        spec = read_public_spec(run.manifest)
        levels = with_names(
            files, run, spec, read_levels(files, run.spine, spec.levels, spec.prefixes, findings), findings
        )
        universes = {
            universe.name: _Universe(files, run.universe(universe.name), spec, universe, levels, findings)
            for universe in spec.universes
        }
        for checked in universes.values():
            with findings.noting_errors():
                checked.check()
        with findings.noting_errors():
            counts = {name: checked.counts for name, checked in universes.items()}
            check_marginals(files, run, spec, counts, levels, findings)
        _check_joins(universes, spec, levels, findings)
        _check_sizes(universes, spec, run, findings)
        _check_amounts(universes, spec, run, findings)
        housed = _check_households(universes, spec, findings) if spec.microdata and levels else {}
        for table in spec.household_tables:
            with findings.noting_errors():
                files.seen |= {run.household_table(table.name, level) for level in table.levels}
                where = housed.get(table.companion)
                if where is not None or not spec.microdata:
                    check_household_table(files, run, table, levels, universes[""].counts, where, findings)
        check_shares(files, run, spec, levels, findings)
        with findings.noting_errors():
            drawn = findings.check("public/manifest.json", "draws that are not those of the spec")
            for sentence in draw_problems(read_json(run.manifest, "public/manifest.json"), levels, run):
                drawn.fail(sentence)
        check_update(files, run, levels, findings)
        _check_unknown(files, run, spec, findings)
        with understood("files"):
            findings.changed += files.changed(dict(read_json(run.manifest, "public/manifest.json")["files"]))
    return findings


def _run_at(root: Path) -> Places:
    if not root.is_dir():
        raise FormError(f"{root}: no such folder; the directory of a release is needed")
    whole = root.absolute()
    run = Places(whole.parent if whole.name == "public" and not (whole / "public").exists() else root)
    if not run.manifest.is_file():
        raise FormError(f"{root}: no finished release is here; {run.manifest} is missing")
    return run


@dataclass(frozen=True, eq=False)
class _Universe:
    """The checks of one universe. Only the checks that need an unreadable file are left out.

    Attributes:
        counts: of the levels whose histogram can be read.
    """

    files: Files
    folder: UniversePlaces
    spec: PublicSpec
    universe: PublicUniverse
    levels: tuple[Level, ...]
    findings: Findings
    counts: dict[str, Counts] = field(default_factory=dict)

    def check(self) -> None:
        for level in self.levels:
            with self.findings.noting_errors():
                path = self.folder.histogram(level.name)
                self.counts[level.name] = read_histogram(
                    self.files, path, level, self.universe.cells, self.universe.impossible, self.findings, self._least
                )
        self._check_sums()
        self._check_microdata()
        self._check_tables()
        self._check_relations()
        check_positive(self.files, self.folder, self.universe, self.levels, self.counts, self.findings)

    @property
    def _least(self) -> int:
        """What no number is below."""
        return 0 if self.universe.amount is None else self.universe.amount.least

    def histogram(self, level: str) -> str:
        """The histogram of a level, as sentences name it."""
        return self.files.name(self.folder.histogram(level))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the microdata by which persons find their households."""
        return key_columns(self.universe.name, self.spec.joined)

    @property
    def records(self) -> RecordFile:
        """The microdata."""
        leaves = self.levels[-1].name
        most = int(self.counts[leaves].counts.sum()) if leaves in self.counts else None
        return RecordFile(self.folder.microdata, self.universe.cells, self.key_columns, most)

    def _check_sums(self) -> None:
        for above, below in zip(self.levels, self.levels[1:], strict=False):
            if above.name in self.counts and below.name in self.counts:
                self._compare(
                    self.histogram(above.name),
                    f"cells that are not the sum over level {below.name!r}",
                    f"the sum over its children, level {below.name!r}",
                    above,
                    self.counts[above.name],
                    self.counts[below.name].raised(below),
                )

    def _compare(self, name: str, kind: str, why: str, level: Level, actual: Counts, required: Counts) -> None:
        compare(self.findings, name, kind, why, level, self.universe.cells.label, actual, required)

    def _check_microdata(self) -> None:
        if not self.spec.microdata or self.universe.amount is not None or self.spec.marginals is not None:
            return  # whole records of several universes are compared with all of them
        leaves, own = self.levels[-1], self.records
        with self.findings.noting_errors():
            records = read_microdata(self.files, own.path, leaves, own.cells, self.findings, own.most, own.columns)
            if leaves.name in self.counts:
                kind = "cells with another number of records than the histogram has"
                name, why = self.files.name(own.path), f"the count in {self.histogram(leaves.name)}"
                self._compare(name, kind, why, leaves, records, self.counts[leaves.name])

    def _check_tables(self) -> None:
        """Compare tables, and what continues them cumulatively, with sums of the histograms' cells."""
        files, findings, margins = self.files, self.findings, self.spec.margins
        for table, answers, names in self.universe.tables:
            term = dict(self.universe.cumulated).get(table)
            for level in (level for level in self.levels if level.name in names):
                path, cells = self.folder.table(table, level.name), self.counts.get(level.name)
                with findings.noting_errors():
                    required = None if cells is None else cells.answers(answers)
                    check_table(files, path, level, answers, required, findings, margins=margins, least=self._least)
                if term is not None:
                    with findings.noting_errors():
                        paths = self.folder.table(table, level.name, "cumulative"), path
                        check_cumulative(files, paths, level, answers, term, cells, findings, margins=margins)

    def _check_relations(self) -> None:
        """Check the histograms against exact answers and facilities."""
        for name, answers in self.universe.invariants:
            self._against(check_invariant, self.folder.answers("invariants", name, answers.name), name, answers)
        for number, bound in enumerate(self.universe.bounds):
            self._against(check_bound, self.folder.constraint(number), bound.level, bound)

    def _against(self, check: Callable[..., None], path: Path, name: str, stated: Query | Bound) -> None:
        with self.findings.noting_errors():
            self.files.seen.add(path)
            if name in self.counts:
                level = self._level(name)
                check(self.files, path, level, stated, self.counts[name], self.histogram(name), self.findings)

    def columns(
        self, table: str, answers: Query, level: Level, labels: Sequence[str]
    ) -> list[dict[str, NDArray[np.float64]]]:
        """Columns of a table of a level, see `table_columns`."""
        path = self.folder.table(table, level.name)
        return table_columns(self.files, path, answers, level, self.spec.margins, labels)

    def _level(self, name: str) -> Level:
        return next(level for level in self.levels if level.name == name)


def _check_joins(
    universes: Mapping[str, _Universe], spec: PublicSpec, levels: tuple[Level, ...], findings: Findings
) -> None:
    """Compare persons with households in every geounit of every level."""
    persons = universes[""]
    for join in spec.joins:
        with findings.noting_errors():
            if (households := universes.get(str(join.get("companion")))) is None:
                raise FormError(
                    f"public/manifest.json: a join is with {join.get('companion')!r}, which is no companion"
                )
            for group in joined_groups(join, persons.universe.cells, households.universe.cells):
                for level in levels:
                    if level.name in persons.counts and level.name in households.counts:
                        names = persons.histogram(level.name), households.histogram(level.name)
                        own, theirs = persons.counts[level.name], households.counts[level.name]
                        check_group(group, level, own, theirs, names, findings)


def _check_sizes(universes: Mapping[str, _Universe], spec: PublicSpec, run: Places, findings: Findings) -> None:
    """Check the average household sizes of every level at which both counts are published."""
    persons = universes[""]
    for companion in spec.joined:
        with findings.noting_errors():
            joins = [join for join in spec.joins if join["companion"] == companion]
            homes = universes.get(companion)
            if homes is None or any(join["others"] for join in joins):
                continue
            cells = persons.universe.cells, homes.universe.cells
            size = sized([joined_groups(join, *cells) for join in joins])
            if size is None:
                continue
            for level in persons.levels:
                own = number_of(persons.universe, size.persons, level.name)
                theirs = number_of(homes.universe, np.ones(cells[1].size, dtype=np.bool_), level.name)
                if own is not None and theirs is not None:
                    path = run.household_sizes(companion, level.name)
                    persons.files.seen.add(path)
                    above, below = (
                        one.columns(table, answers, level, [answers.labels[answer]])[0]
                        for one, (table, answers, answer) in ((persons, own), (homes, theirs))
                    )
                    names, limits = ("persons", "households", "average"), (size.least, size.most)
                    ratios = [Ratio(names, above, below, limits)]
                    check_ratios(persons.files, path, level, ratios, findings, margins=spec.margins)


def _check_amounts(universes: Mapping[str, _Universe], spec: PublicSpec, run: Places, findings: Findings) -> None:
    """Compare the sums of amounts with the released counts, and the files of sums and means with the tables."""
    own = universes[""]
    for one in universes.values():
        if one.universe.amount is not None:
            with findings.noting_errors():
                _check_amount(own, one, one.universe.amount, spec, run, findings)


def _check_amount(
    own: _Universe, one: _Universe, amount: Amount, spec: PublicSpec, run: Places, findings: Findings
) -> None:
    universe, files = one.universe, own.files
    cells = own.universe.cells.cells_of(universe.cells)
    for level in own.levels:
        if level.name in own.counts and level.name in one.counts:
            check_clip(universe, level, own.counts[level.name], one.counts[level.name], cells, findings)
        for table, answers, names in universe.tables:
            if level.name not in names:
                continue
            with findings.noting_errors():
                sums = one.columns(table, answers, level, answers.labels)
                counted = counted_by(own.universe, answers, level.name, cells)
                counts = None if counted is None else own.columns(counted, answers, level, answers.labels)
                ratios = [
                    Ratio(
                        (f"{label}:sum", f"{label}:count", f"{label}:mean"),
                        sums[number],
                        None if counts is None else counts[number],
                        (amount.first, amount.last),
                        float(amount.unit),
                    )
                    for number, label in enumerate(answers.labels)
                ]
                path = run.means(universe.name, table, level.name)
                check_ratios(files, path, level, ratios, findings, margins=spec.margins, sums=True)


def _check_households(universes: Mapping[str, _Universe], spec: PublicSpec, findings: Findings) -> dict[str, Housed]:
    """Compare the households that persons have the number of with the joins; companion -> who lives where."""
    persons, housed = universes[""], dict[str, Housed]()
    for companion in spec.joined:
        with findings.noting_errors():
            if (homes := universes.get(companion)) is None:
                continue  # which is reported above
            limits = [
                (group, bool(join["others"]))
                for join in spec.joins
                if join["companion"] == companion
                for group in joined_groups({**join, "others": False}, persons.universe.cells, homes.universe.cells)
            ]
            column = persons.key_columns[spec.joined.index(companion)]
            leaves = persons.levels[-1]
            housed[companion] = check_households(
                persons.files, leaves, persons.records, homes.records, column, limits, findings
            )
    return housed


def _check_unknown(files: Files, run: Places, spec: PublicSpec, findings: Findings) -> None:
    """Report published counts that the spec does not give: no constraint of theirs is known."""
    free = [run.universe(universe.name).folder / folder for universe in spec.universes for folder in _UNCHECKED]
    check = findings.check("public", "files that the spec does not give")
    for path in sorted(run.public.rglob("*.parquet")):
        if path not in files.seen and not any(folder in path.parents for folder in free):
            check.fail(f"{files.name(path)} does not follow from the spec; no such file is part of the release")
