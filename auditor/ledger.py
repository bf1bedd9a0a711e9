"""What a ledger was charged, read from its table and judged anew: the chain, the prices, the order, what is missing."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from auditor.accounting import cost_of
from auditor.clique_redraw import fingerprint_of, read_tables
from auditor.cliques import CliqueChoice
from auditor.draws import Due, clique_draws, measured_of
from auditor.form import Universe
from auditor.keys import commitment
from auditor.reading.findings import FormError, Found, holds
from auditor.reading.values import Stated, digest
from auditor.release import Release

#: Ends the query of a charge where geounits without siblings are bypassed.
_BYPASSED: Final = " (bypass)"
#: What a charge states of how far one person's change moves numbers: records of a person; how far a record moves a
#: number; how far losses are moved; numbers of a unit; and over a series, in that of one record of one release.
_MOVED: Final = ("records", "reach", "losses", "numbers", "series")

#: A ledger's id, and its events as tables hold them.
Read = tuple[str, list[dict[str, Any]]]


def read_ledger(place: str) -> Read:
    """The id and the events of a ledger in an SQLite file, given as a path or as sqlite:///PATH.

    Raises:
        FormError: it is another kind of database, or cannot be read.
    """
    if "://" in place and not place.startswith("sqlite:///"):
        raise FormError("--ledger: this program reads SQLite only; give `spinewise audit` a ledger on PostgreSQL")
    path = Path(place.removeprefix("sqlite:///"))
    if not path.is_file():
        raise FormError(f"--ledger {place}: there is no such file")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            (about,) = connection.execute("SELECT * FROM ledger_about").fetchall()
            rows = connection.execute("SELECT * FROM ledger_events ORDER BY number").fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise FormError(f"--ledger {place}: cannot be read ({error})") from None
    return about["ledger"], [dict(row) for row in rows]


def computed_hash(event: Stated) -> str:
    """SHA-256 over a seal and all fields in the order of the table, as docs/ledger.md states it."""
    fields = [value for name, value in event.items() if name not in ("hash", "details")]
    details = event.get("details")
    seal = "spinewise ledger event 2" if details else "spinewise ledger event 1"
    content = [seal, *fields, details] if details else [seal, *fields]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def chain_problems(ledger: str, events: Sequence[Stated]) -> list[str]:
    """Events that were changed, moved or left out, are priced wrongly, or overspend."""
    problems = []
    previous = ledger
    opened: dict[str, Stated] = {}
    spent: Counter[str] = Counter()
    aside: dict[tuple[str, str], Fraction] = {}
    for number, event in enumerate(events, 1):
        if event["number"] != number or event["previous"] != previous or event["hash"] != computed_hash(event):
            problems.append(f"event {event['number']}: was changed, or does not follow the one before it")
        previous = event["hash"]
        if event["kind"] == "open":
            opened[event["dataset"]] = event
        if event["kind"] == "purpose":
            problems += _aside(event, opened, aside)
            if spent[event["dataset"]]:
                problems.append(f"event {number}: sets aside of {event['dataset']!r} after charges to it")
        if event["kind"] == "charge":
            one = opened.get(event["dataset"])
            if one is None:
                problems.append(f"event {number}: charges {event['dataset']!r}, which was not opened")
                continue
            price = priced(event, one["framework"])
            spent[event["dataset"]] += Fraction(event["cost"])  # type: ignore[assignment]
            if price != Fraction(event["cost"]):
                problems.append(f"event {number}: costs {price}, charged is {event['cost']}")
            if spent[event["dataset"]] > Fraction(one["budget"]):
                problems.append(f"event {number}: overspends {event['dataset']!r}")
            problems += _beyond(event, aside)
    return problems + series_problems(events)


def series_problems(events: Sequence[Stated]) -> list[str]:
    """Series that are opened twice or without a charge, and periods that are drawn twice, or not in their order."""
    problems = []
    charged = {(event["dataset"], event["run"]) for event in events if event["kind"] == "charge"}
    opened: dict[tuple[str, str], Stated] = {}
    drawn: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for event in events:
        if event["kind"] not in ("series", "period"):
            continue
        stated, run = json.loads(event["details"]), (event["dataset"], event["run"])
        name = stated["name" if event["kind"] == "series" else "series"]
        before, opening = drawn.setdefault((event["dataset"], name), []), opened.get((event["dataset"], name))
        if event["kind"] == "series":
            if opening is not None or run not in charged:
                problems.append(f"event {event['number']}: opens the series {name!r} again, or without a charge")
            opened[event["dataset"], name] = event
            continue
        if (
            opening is None
            or not event["count"] == len(before) < opening["count"]
            or run in before
            or (stated["predecessor"] == "first") != (not before)
            or (run in charged if before else event["run"] != opening["run"])
        ):
            problems.append(f"event {event['number']}: is not the next period of the series {name!r}")
        before.append(run)
    return problems


def _aside(event: Stated, opened: Mapping[str, Stated], aside: dict[tuple[str, str], Fraction]) -> list[str]:
    """Note what an event sets aside of a dataset by name, and what is left for all else; what is wrong with it."""
    number, dataset, amount = event["number"], event["dataset"], Fraction(event["budget"])
    if dataset not in opened:
        return [f"event {number}: sets aside of {dataset!r}, which was not opened"]
    budget = Fraction(opened[dataset]["budget"])
    share = Fraction(json.loads(event["details"])["share"])
    again = (dataset, event["query"]) in aside
    aside[dataset, event["query"]] = amount
    aside[dataset, ""] = aside.get((dataset, ""), budget) - amount
    problems = [] if amount == share * budget else [f"event {number}: sets {amount} aside, and not {share} of {budget}"]
    if again or amount <= 0 or aside[dataset, ""] < 0:
        problems.append(f"event {number}: sets aside twice, nothing, or more than {dataset!r} has")
    return problems


def _beyond(event: Stated, aside: dict[tuple[str, str], Fraction]) -> list[str]:
    """Take a charge from the part of the budget that it is for, of which `aside` has what is left; what is wrong.

    Answers to questions are charged under "answer NAME", releases under their names.
    """
    number, dataset, release = event["number"], event["dataset"], event["release"]
    stated = json.loads(event["details"]).get("purpose", "") if event["details"] else ""
    if (dataset, "") not in aside:
        return [f"event {number}: is for {stated!r}, for which nothing is set aside"] if stated else []
    purpose = "questions" if release.startswith("answer ") else release if release != "questions" else ""
    place = (dataset, purpose if (dataset, purpose) in aside else "")
    aside[place] -= Fraction(event["cost"])
    problems = [] if stated == place[1] else [f"event {number}: is for {place[1]!r}, and says {stated!r}"]
    if aside[place] < 0:
        problems.append(f"event {number}: overspends what {dataset!r} has for {place[1] or 'all else'}")
    return problems


def priced(event: Stated, framework: str) -> Fraction:
    """What a charge has to be."""
    times = {name: Fraction(1) for name in _MOVED} | {name: Fraction(one) for name, one in _moved(event).items()}
    if len(times) > len(_MOVED) or min(times.values()) < 1:
        raise FormError(f"event {event['number']}: has the details {event['details']!r:.200}, which no charge has")
    moved = {"change-one": 2, "add-remove": 1}[event["neighbours"]] if times["losses"] == 1 else 1
    apart, zcdp = times["records"] * times["reach"] * times["losses"], framework == "zcdp"
    cost = cost_of((event["mechanism"], Fraction(event["scale"]), moved), zcdp=zcdp)
    return cost * (apart**2 if zcdp else apart) * times["numbers"] * times["series"]


def _moved(event: Stated) -> dict[str, str]:
    found: dict[str, str] = json.loads(event["details"]).get("moved", {}) if event["details"] else {}
    return found


def moved_by(**times: Fraction | int | str) -> str:
    """What a charge states of how far its numbers are moved, as one text: what is not 1."""
    return str(sorted((name, str(number)) for name, number in times.items() if number != 1))


def of_run(events: Iterable[Stated], secret: bytes, context: Sequence[str]) -> list[Stated]:
    """The events of the run whose streams are bound to a context."""
    content = ["spinewise run 1", "spinewise keys 1", commitment(secret), *context]
    run = digest(content)
    return [event for event in events if event["run"] == run]


def ledger_findings(release: Release, secret: bytes | None, read: Read | None) -> Iterator[Found]:
    """Whether all that was drawn was charged, before it was drawn, in a ledger that still knows it.

    Args:
        release: with its restricted/.
        secret: the master key, by which the charges are found.
        read: the ledger, as `read_ledger` gives it; None where only the note in restricted/ is to be checked.
    """
    named = release.manifest["spec"]["privacy"].get("dataset")
    note = noted(release.restricted)
    if named and note is None:
        yield holds("ledger", "charge", [f"the spec names the dataset {named!r}, and restricted/ has no charge"])
    companions = release.manifest["spec"].get("companions", ())
    if ends := {name: one["chosen"] for name, one in companions if one.get("chosen")}:
        yield holds("ledger", "chosen ends", _unpaid(release, ends, note, read))
    if read is None:
        return
    yield from kept_findings(read, note)
    yield holds("ledger", "receipt known", unknown_receipts(release.manifest.get("receipts", ()), read))
    choice = release.form.universes[0].cliques
    if named and secret is not None:
        yield holds("ledger", "charges", _charge_problems(release, secret, read[1]))
        if choice is not None:
            yield holds("ledger", "choice of cliques", _clique_problems(release, secret, choice, read))
    pairs = (e for e in read[1] if e["kind"] == "charge" and e["mechanism"] == "exponential")
    chose = {(e["release"], e["dataset"]) for e in pairs if e["query"].startswith("pair ")}
    if named and choice is None and (release.manifest["spec"]["name"], release.form.universes[0].dataset) in chose:
        yield holds("ledger", "choice of cliques", ["one was charged for this release, and the spec has none"])


def kept_findings(read: Read, note: Stated | None) -> Iterator[Found]:
    """Whether a ledger's chain is whole, and it still knows the event that a run noted."""
    ledger, events = read
    yield holds("ledger", "chain", chain_problems(ledger, events), well=f"{len(events)} events")
    if note is not None:
        yield holds("ledger", "memory", forgotten(ledger, events, note))


def unknown_receipts(receipts: Iterable[Stated], read: Read) -> list[str]:
    """What receipts name that a ledger does not have."""
    return [
        f"the ledger has no event {one['number']} as stated"
        for one in receipts
        if one["ledger"] != read[0] or not _knows(read[1], one)
    ]


def _knows(events: Sequence[Stated], one: Stated) -> bool:
    """Whether an event is there by its number and hash."""
    return 1 <= int(one["number"]) <= len(events) and events[int(one["number"]) - 1]["hash"] == one["hash"]


def _unpaid(release: Release, ends: Mapping[str, Stated], note: Stated | None, read: Read | None) -> list[str]:
    """Ends whose cost is in another ledger than the release's, or in none."""
    problems = []
    receipts = {(one["dataset"], one["ledger"]) for one in release.manifest.get("receipts", ())}
    for name, end in ends.items():
        if (end["dataset"], end["ledger"]) not in receipts or (note is not None and note["ledger"] != end["ledger"]):
            problems.append(f"{name}: the end was chosen for a cost in another ledger, or dataset, than the release's")
        if read is not None and end["ledger"] == read[0]:
            # Several words may follow the question: how far a record moves, how many a person has.
            asked = re.compile(re.escape(f": {end['question']}") + r"( \([^()]*\))*$")
            if not any(
                event["kind"] == "charge"
                and event["dataset"] == end["dataset"]
                and event["release"].startswith("answer ")
                and asked.search(event["query"])
                for event in read[1]
            ):
                problems.append(f"{name}: the ledger was never charged for the question that chose the end")
    return problems


def noted(restricted: Path) -> dict[str, Any] | None:
    """What a run noted of its charge; None where it noted nothing."""
    try:
        note: dict[str, Any] = json.loads((restricted / "ledger.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return note


def forgotten(ledger: str, events: Sequence[Stated], note: Stated) -> list[str]:
    """Whether a ledger does not know the event that a run noted, or is another."""
    if note["ledger"] != ledger:
        return ["the run was charged in another ledger"]
    if _knows(events, note):
        return []
    return [f"it has forgotten event {note['number']}, which this run noted: it was put back to an older state"]


def charged(
    own: Sequence[Stated],
    due: Iterable[tuple[Any, ...]],
    paths: Iterable[Path],
    terms: tuple[str, str],
    *,
    counted: bool = False,
) -> tuple[list[Stated], list[str]]:
    """The charges of a run among its events, and what is wrong with them: others than are due, none kept, or too late.

    Copying a release makes the files younger, never older.

    Args:
        own: events of the run.
        due: level, query, mechanism, scale and `moved_by` of each charge, and how many numbers it is for, if these are
            `counted`.
        paths: of what was drawn.
        terms: the dataset, and who neighbours are.
    """
    charges = [event for event in own if event["kind"] == "charge"]
    found = Counter(
        (
            e["level"],
            e["query"],
            e["mechanism"],
            Fraction(e["scale"]),
            moved_by(**_moved(e)),
            *([int(e["count"])] if counted else ()),
        )
        for e in charges
    )
    right = Counter(due)
    problems = [f"{query} at {level} was not charged" for level, query, *_ in right - found]
    problems += [f"{query} at {level} was charged and not drawn so" for level, query, *_ in found - right]
    for stated in sorted({(event["dataset"], event["neighbours"]) for event in charges} - {terms}):
        problems.append(f"{stated[0]!r} with neighbours {stated[1]!r} was charged; {terms[0]!r}, {terms[1]!r} is due")
    if charges and not any(event["kind"] == "commit" for event in own):
        problems.append("the charge was never committed, and yet noise was drawn")
    times = [path.stat().st_mtime for path in paths if path.is_file()]
    if charges and times:
        begun, drawn = max(datetime.fromisoformat(event["time"]) for event in charges).timestamp(), min(times)
        if drawn < begun:  # events have whole seconds, cut off
            problems.append(f"was drawn {begun - drawn:.0f} s before it was charged")
    return charges, problems


def _charge_problems(release: Release, secret: bytes, events: Sequence[Stated]) -> list[str]:
    problems = []
    for universe in release.form.universes:
        name = universe.title
        own = of_run(events, secret, release.context(secret, universe))
        series = universe.series
        distance = series.distance if series.periods else 1
        moved = moved_by(reach=universe.reach, records=universe.together, series=distance)
        due = [
            (one.level, one.query + (_BYPASSED if universe.bypass and isinstance(one, Due) else ""),
             one.mechanism, one.scales[0], moved)
            for one in (measured_of(universe) if not series.number else ())
        ]  # fmt: skip
        paths = (one.path for one in release.due if one.of is universe)
        terms = universe.dataset, universe.neighbours
        wrong = [*_place_problems(universe, own), *charged(own, due, paths, terms)[1]]
        problems += [f"{name}: {problem}" for problem in wrong]
    return problems


def _clique_problems(release: Release, secret: bytes, choice: CliqueChoice, read: Read) -> list[str]:
    """Whether the choice of cliques was charged, in this ledger and before anything was measured."""
    try:
        records = fingerprint_of(secret, read_tables(release, choice))
    except FormError as error:
        return [str(error)]
    due = []
    for one in clique_draws(choice):
        moved = moved_by(losses=max(1, one.weight * choice.moved), records=choice.records)
        due.append((one.level, one.query, one.mechanism, one.scales[0], moved))
    ledger, events = read
    own = of_run(events, secret, (records, release.spine_fingerprint, choice.fingerprint()))
    main = release.form.universes[0]
    charges, problems = charged(own, due, (one.path for one in release.due), (main.dataset, main.neighbours))
    if charges and choice.stated.get("ledger") != ledger:
        problems.append("the release states another ledger")
    last = max((event["number"] for event in charges), default=0)
    if charges and (choice.stated.get("number"), choice.stated.get("hash")) != (last, events[last - 1]["hash"]):
        problems.append("the release states another event of the ledger")
    return problems


def _place_problems(universe: Universe, own: Sequence[Stated]) -> list[str]:
    """Whether the ledger let the run of a series through as another period, or as none."""
    if not (series := universe.series).periods:
        return []
    stated = {"series": series.name, "period": series.periods[series.number], "predecessor": series.predecessor}
    drawn = [(event["count"], json.loads(event["details"])) for event in own if event["kind"] == "period"]
    return [] if drawn == [(series.number, stated)] else ["was not let through as the period of the series that it is"]
