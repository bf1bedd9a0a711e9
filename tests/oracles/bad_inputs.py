"""Bad inputs by seed, of every kind that a user can give, and what may come of each.

An input is damaged, given to the function that reads it, and judged: a traceback, no end, an exit status that does not
fit, and silent acceptance. What must be accepted and what must be refused is decided here, by readers that share no
code with the program: exact texts in dictionaries, `csv`, JSON, and the pages of pyarrow.
"""

from __future__ import annotations

import copy
import csv
import io
import itertools
import random
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tomlkit
from releases.asked import ask, ledger_of, write_workers
from releases.small import QUICK, write_town
from releases.wages import write_wages

from flows.checks.validation import validate
from geography.errors import SpinewiseError
from oracles.damage import damaged, damaged_bytes, places, restored
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.memory_table import MemoryTable
from pipeline.questions.text import parse
from pipeline.records.tabulate import tabulate
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer
from pipeline.spec.release_spec import load_spec, parse_spec

JUNK: tuple[str, ...] = (
    "", " ", "\0", "a\0", "0", "-1", "1", "01", "1.0", "+1", "1e3", "1e400", "nan", "inf", "null", "None", "true",
    "False", "٣", "é", "e\u0301", "ß", "\ufeff", "\u200b", "\x7f", "a\tb", 'a"b', "a,b", "a\nb", "x" * 300, "..",
    "0..4", "..4", "child * f", "total", "detailed", "1/2", "1/0", "/dev/null", "-", "#", "[", "{", "\U0001f600",
)  # fmt: skip


class WrongEndError(AssertionError):
    """An end that may not be: `what` is its class."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what, self.detail = what, detail


def outcome(read: Callable[[], Any]) -> tuple[Any, str]:
    """What a function gives, and ""; or None and the message of a refusal, which is one of ours with status 2."""
    try:
        return read(), ""
    except SpinewiseError as error:
        if error.exit_status != 2:
            raise WrongEndError("wrong status", f"{error.exit_status}: {error}") from None
        if not str(error).strip():
            raise WrongEndError("wrong status", "no message") from None
        return None, str(error)


def near(rng: random.Random, text: str, others: list[str]) -> str:
    """A text that looks like another, or is it in another spelling; or junk, or another that is right."""
    choices = (
        lambda: text + "\0",
        lambda: "\0" + text,
        lambda: text + " ",
        lambda: " " + text,
        lambda: text + "\t",
        lambda: text + "\u00a0",
        lambda: text.upper() if text.upper() != text else text.lower(),
        lambda: unicodedata.normalize("NFD", text + "é"),
        lambda: unicodedata.normalize("NFKC", text),
        lambda: "0" + text,
        lambda: text.lstrip("0"),
        lambda: text + ".0",
        lambda: text[:-1],
        lambda: text + text[-1:],
        lambda: "\ufeff" + text,
        lambda: text + "\u200b",
        lambda: text.translate({ord("0"): "\uff10", ord("a"): "\u0430", ord("A"): "\u0391"}),
        lambda: rng.choice(JUNK),
        lambda: rng.choice(others or [text]),
    )
    return rng.choice(choices)()


def changed_rows(rng: random.Random, rows: list[list[str]]) -> list[list[str]]:
    """A table as texts, the header first, with one or two changes of cells, rows or columns."""
    rows = copy.deepcopy(rows)
    for _ in range(rng.choice((1, 1, 2))):
        column = rng.randrange(len(rows[0]))
        row = rng.randrange(1, len(rows)) if len(rows) > 1 else 0
        what = rng.random()
        if what < 0.75:
            rows[row][column] = near(rng, rows[row][column], [one[column] for one in rows])
        elif what < 0.8:
            rows[0][column] = near(rng, rows[0][column], rows[0])
        elif what < 0.86:
            rows.insert(row, list(rows[row]))
        elif what < 0.9 and row:
            del rows[row]
        elif what < 0.94:
            rows = [[*one, one[column]] for one in rows]
        elif what < 0.97 and len(rows[0]) > 1:
            rows = [one[:column] + one[column + 1 :] for one in rows]
        else:
            for one in rows[1:]:
                one[column] = near(random.Random(0), one[column], [""])
    return rows


def csv_bytes(rng: random.Random, rows: list[list[str]]) -> bytes:
    """The table as CSV, in one of the ways in which programs write it; all are read alike."""
    text = io.StringIO()
    quoting: Literal[0, 1] = csv.QUOTE_MINIMAL if rng.random() < 0.5 else csv.QUOTE_ALL
    csv.writer(text, lineterminator=rng.choice(("\n", "\r\n")), quoting=quoting).writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def without_mark(rows: list[list[str]], file: Path) -> list[list[str]]:
    """What a CSV file of the rows holds: U+FEFF at its beginning, before any quotes, is a mark of its encoding."""
    if not file.read_bytes().startswith("\ufeff".encode()):
        return rows
    return [[rows[0][0].removeprefix("\ufeff"), *rows[0][1:]], *rows[1:]]


def judged(found: object, expected: object, told: str) -> bool:
    """Whether an input was taken, as it had to be; it may be neither taken nor refused wrongly."""
    if (found is None) != (expected is None):
        raise WrongEndError("silent acceptance" if expected is None else "refused though right", told)
    return found is not None


class World:
    """Good inputs in a folder, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.town = write_town(folder / "town", *QUICK)
        (folder / "wages").mkdir(parents=True)
        self.wages = write_wages(folder / "wages")
        self.work = write_workers(folder / "work", n=60)
        self.specs = [path.read_text("utf-8") for path in (self.town, self.wages, self.work)]
        self.places = [path.parent for path in (self.town, self.wages, self.work)]
        self.loaded = load_spec(self.town)
        self.universe = self.loaded.universes()[0]
        self.spine = read_spine(self.loaded.geography)
        self.leaves = {str(code): number for number, code in enumerate(self.spine.leaf_level.geocodes)}

    def rows(self, name: str) -> list[list[str]]:
        """A CSV file of the town."""
        with (self.folder / "town" / name).open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    @cached_property
    def answer(self) -> Path:
        """An answer about the workers."""
        with ledger_of(self.folder / "work"):
            return ask(self.work, "count by tract, sex where age >= 18")


def bad_spec(rng: random.Random, world: World) -> str:
    """A spec with changed keys: refused in words, or another spec; never the same one."""
    which = rng.randrange(len(world.specs))
    good = world.specs[which]
    content = tomllib.loads(good)
    changed = copy.deepcopy(content)
    place = rng.choice(places(content))
    inside: Any = changed
    for part in place[:-1]:
        inside = inside[part]
    name, what = place[-1], rng.random()
    value = inside[name]
    if what < 0.5:
        inside[name] = _like(rng, value)
    elif what < 0.6:
        inside[name] = rng.choice([[], [value], [value] * 2, [value] * 3, {}, {"a": value}, {"": value}])
    elif what < 0.7:
        del inside[name]
    elif isinstance(inside, list):
        inside.insert(int(name), _like(rng, value))
    elif what < 0.85:
        inside[near(rng, str(name), list(map(str, inside)))] = inside.pop(name)
    else:
        inside[near(rng, str(name), list(map(str, inside)))] = _like(rng, value)
    folder, text = world.places[which], tomlkit.dumps(changed)
    try:
        same_text = tomllib.loads(text) == content
    except tomllib.TOMLDecodeError:
        same_text = False
    spec, message = outcome(lambda: parse_spec(text, "spec.toml", folder))
    if spec is None:
        if not message.startswith("spec.toml: "):
            raise WrongEndError("wrong status", f"names no file: {message}")
        return "refused"
    other = not same_text and _written(content) != _written(changed)  # and not just written in another way
    if other and spec == parse_spec(good, "spec.toml", folder):
        raise WrongEndError("silent acceptance", f"{place}: {value!r} -> {changed!r:.2000}")
    if rng.random() < 0.1:
        file = folder / "changed.toml"
        file.write_text(text, "utf-8")
        outcome(lambda: validate(None, file))
    return "accepted"


def bad_text(rng: random.Random, world: World) -> str:
    """A spec with changed characters."""
    which = rng.randrange(len(world.specs))
    return _by_byte(rng, world.places[which] / "spoilt.toml", world.specs[which].encode(), load_spec)


def _by_byte(rng: random.Random, file: Path, good: bytes, read: Callable[[Path], Any]) -> str:
    """A file with other bytes is refused by its name, or right: what it says then is not judged here."""
    file.write_bytes(damaged_bytes(rng, good))
    _, message = outcome(lambda: read(file))
    if message and file.name not in message:
        raise WrongEndError("wrong status", f"names no file: {message}")
    return "refused" if message else "accepted"


def _like(rng: random.Random, value: Any) -> Any:
    if isinstance(value, str):
        return (
            near(rng, value, list(JUNK))
            if rng.random() < 0.8
            else rng.choice([0, 1.5, True, [], {}, 2**70, float("nan")])
        )
    if isinstance(value, bool):
        return rng.choice([not value, "true", 1, [], {}])
    if isinstance(value, int):
        return rng.choice([value + 1, -value, 0, 2**63, float(value), str(value), True, [value], {}, float("inf")])
    if isinstance(value, list):
        return rng.choice(
            [value[:1], value[1:], [*value, *value[:1]], value * 3, [value], [], "x", {}, list(reversed(value))]
        )
    return rng.choice([{}, [], "x", 1, [value]])


def _written(value: Any) -> Any:
    """A document without what may be written in several ways: numbers as text, one value for a list of it, nothing."""
    if isinstance(value, Mapping):
        return {name: _written(inner) for name, inner in sorted(value.items()) if inner not in ([], {})}
    if isinstance(value, list):
        return _written(value[0]) if len(value) == 1 else [_written(inner) for inner in value]
    if isinstance(value, str):
        try:
            return Fraction(value.strip())
        except (ValueError, ZeroDivisionError):
            return value
    return value


def _expected(world: World, rows: list[list[str]]) -> Counter[tuple[str, ...]] | None:
    """Persons by geocode and values, by exact texts; None where the file must be refused."""
    names = ("block", *world.universe.schema.names)
    header, body = rows[0], [row for row in rows[1:] if row]
    if any(header.count(name) != 1 for name in names) or not body or any(len(row) != len(header) for row in body):
        return None
    at = [header.index(name) for name in names]
    allowed = [set(world.leaves), *(set(one.values) for one in world.universe.schema.attributes)]
    found: Counter[tuple[str, ...]] = Counter()
    for row in body:
        person = tuple(row[place] for place in at)
        if any(text not in right for text, right in zip(person, allowed, strict=True)):
            return None
        found[person] += 1
    return found


def _counted(world: World, counts: Any) -> Counter[tuple[str, ...]]:
    codes, schema = list(world.leaves), world.universe.schema
    cells = list(itertools.product(*(one.values for one in schema.attributes)))
    table = counts.tocoo()
    return Counter(
        {
            (codes[leaf], *cells[cell]): int(n)
            for leaf, cell, n in zip(table.coords[0], table.coords[1], table.data, strict=True)
        }
    )


def bad_records(rng: random.Random, world: World) -> str:
    """Records with changed cells, as CSV, Parquet or a table in memory: counted as an exact reader does, or refused."""
    if rng.random() < 0.2:
        good = (world.town.parent / "persons.csv").read_bytes()
        held = world.universe.require_input()
        file = world.folder / "spoilt.csv"
        schema = world.universe.schema
        return _by_byte(rng, file, good, lambda file: tabulate(replace(held, file=file), schema, world.spine))
    rows = changed_rows(rng, world.rows("persons.csv"))
    form = rng.choice(("csv", "parquet", "pandas"))
    source: Path | MemoryTable = world.folder / f"persons.{'parquet' if form == 'parquet' else 'csv'}"
    if form == "csv":
        Path(str(source)).write_bytes(csv_bytes(rng, rows))
    else:
        names, columns = rows[0], list(map(list, zip(*rows[1:], strict=True)))
        arrays = [_array(rng, column) for column in columns]
        table = pa.Table.from_arrays(arrays, names=[name.encode("utf-8", "replace").decode() for name in names])
        if form == "parquet":
            pq.write_table(table, str(source), row_group_size=rng.choice((7, 1000)))
        else:
            source = MemoryTable("persons", "the table", tuple(names), lambda wanted: table.select(list(wanted)))
    records = replace(world.universe.require_input(), file=source)
    counts, message = outcome(lambda: tabulate(records, world.universe.schema, world.spine))
    expected = _expected(world, without_mark(rows, Path(str(source))) if form == "csv" else rows)
    told = f"{form}: {message} {_difference(world.rows('persons.csv'), rows)}"
    if not judged(counts, expected, told):
        return "refused"
    if _counted(world, counts) != expected:
        raise WrongEndError("silent acceptance", f"other counts: {told}")
    return "accepted"


def _array(rng: random.Random, texts: list[str]) -> pa.Array:
    """A column of text in one of Arrow's types for it."""
    array = pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())
    return rng.choice((lambda: array, lambda: array.cast(pa.large_string()), array.dictionary_encode))()


def _difference(good: list[list[str]], bad: list[list[str]]) -> str:
    pairs = [(number, a, b) for number, (a, b) in enumerate(zip(good, bad, strict=False)) if a != b]
    return f"{pairs[:2]} of {len(good)} and {len(bad)} rows"


def bad_areas(rng: random.Random, world: World) -> str:
    """The list of areas, or the facilities beside it, with changed cells: read as by an exact reader, or refused."""
    if rng.random() < 0.35:
        return _bad_facilities(rng, world)
    rows = changed_rows(rng, world.rows("blocks.csv"))
    source: Path | MemoryTable = world.folder / "blocks.csv"
    Path(str(source)).write_bytes(csv_bytes(rng, rows))
    if rng.random() < 0.4:
        source = Path(str(source)).with_suffix(".parquet")
        arrays = [_array(rng, list(column)) for column in zip(*rows[1:], strict=True)]
        pq.write_table(
            pa.Table.from_arrays(arrays, names=[name.replace("\ud800", "") for name in rows[0]]), str(source)
        )
    geography = world.loaded.geography.model_copy(update={"file": source})
    spine, message = outcome(lambda: read_spine(geography))
    rows = without_mark(rows, Path(str(source))) if str(source).endswith("csv") else rows
    header, body = rows[0], [row for row in rows[1:] if row and row != [""]]
    codes = [row[header.index("block")] for row in body] if header.count("block") == 1 else []
    right = bool(codes) and len(set(codes)) == len(codes)
    right = right and all(len(code) == 5 and "\0" not in code for code in codes)
    told = f"{source}: {message} {_difference(world.rows('blocks.csv'), rows)}"
    if not judged(spine, right or None, told):
        return "refused"
    if spine is None or sorted(codes) != spine.leaf_level.geocodes.tolist():
        raise WrongEndError("silent acceptance", f"other areas: {told}")
    return "accepted"


def _bad_facilities(rng: random.Random, world: World) -> str:
    rows = changed_rows(rng, world.rows("facilities.csv"))
    file = world.folder / "facilities.csv"
    file.write_bytes(csv_bytes(rng, rows))
    rows = without_mark(rows, file)
    bound = replace(world.universe.bounds[0], file=file)
    numbers, message = outcome(lambda: read_facilities(bound, world.spine))
    header, body = rows[0], [row for row in rows[1:] if row]
    names = ("block", "dorms", "prisons")
    expected: dict[str, list[int]] | None = None
    if all(header.count(name) == 1 for name in names):
        at = [header.index(name) for name in names]
        expected = {row[at[0]]: [_whole(row[place]) for place in at[1:]] for row in body}
        if (
            len(expected) != len(body)
            or set(expected) != set(world.leaves)
            or any(-1 in one for one in expected.values())
        ):
            expected = None
    told = f"facilities: {message} {_difference(world.rows('facilities.csv'), rows)}"
    if not judged(numbers, expected, told):
        return "refused"
    if numbers is None or expected is None or numbers.tolist() != [expected[code] for code in world.leaves]:
        raise WrongEndError("silent acceptance", f"other facilities: {told}")
    return "accepted"


def _whole(text: str) -> int:
    """A count as docs/spec.md says that it may be written; -1 where it is none."""
    digits = text.removeprefix("+").removesuffix(".0").removesuffix(".")
    return int(digits) if digits.isascii() and digits.isdigit() and int(digits) <= 10**10 else -1


QUESTIONS = (
    "count by tract, sex where age >= 18",
    "count units by records_per_unit",
    'median wages by sex where shift = "night" and age in 0-17, 65+',
    "sum wages by county where sex != m",
    "quantile 9/10 wages by county, age",
    "most common 3 shift by tract having count >= 50",
    "clip wages among 20000, 40000, 60000",
)


def bad_question(rng: random.Random, world: World) -> str:
    """A question with a word changed: refused, or understood as other than it was, or by its blanks and case alone."""
    del world
    text = rng.choice(QUESTIONS)
    words = text.split(" ")
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(words))
        what = rng.random()
        if what < 0.6:
            words[place] = near(rng, words[place], words)
        elif what < 0.75:
            words.insert(place, rng.choice(words))
        elif what < 0.9 and len(words) > 1:
            del words[place]
        else:
            words.insert(place, rng.choice(JUNK))
    changed = " ".join(words)
    asked, _ = outcome(lambda: parse(changed))
    if asked is None:
        return "refused"
    good, _ = outcome(lambda: parse(text))
    if good is not None and str(asked) == str(good) and _spoken(changed) != _spoken(text):
        raise WrongEndError("silent acceptance", f"{changed!r} is {asked}")
    return "accepted"


def _spoken(text: str) -> str:
    """A question without blanks, capital letters, and zeros that change no number."""
    plain = re.sub(r"(?<![0-9.])0+(?=[0-9])", "", "".join(text.split()).lower())
    return re.sub(r"(?<=[0-9])\.0*(?![0-9])", "", plain)


def bad_answer(rng: random.Random, world: World) -> str:
    """A file of an answer with changed values: `verify` refuses it, unless it has the same values."""
    root = world.answer
    files = [path for path in sorted((root / "public").iterdir()) if path.is_file()]
    path = rng.choice(files)
    content = path.read_bytes()
    changed = damaged(rng, path)
    with restored([path]):
        path.write_bytes(changed)
        try:
            problems = verify_answer(RunDirectory(root))
        except SpinewiseError as error:
            problems = [str(error)]
    if not problems and changed != content:
        raise WrongEndError("silent acceptance", f"{path.name}: {changed[:300]!r}")
    return "refused" if problems else "accepted"


#: Kind -> what makes and judges an input, which ends as "refused" or "accepted" or raises what is wrong.
KINDS: Mapping[str, Callable[[random.Random, World], str]] = {
    "spec": bad_spec,
    "text": bad_text,
    "records": bad_records,
    "areas": bad_areas,
    "question": bad_question,
    "answer": bad_answer,
}
