"""Receipts of published releases, from anywhere, compared with each other, with their manifests, and with a ledger.

A published manifest cannot be taken back. So its receipt shows what the ledger alone cannot: that events at its end are
missing, or that two copies of it were continued.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Final

from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.privacy.ledger.dataset import ANSWER, DatasetState, replay
from pipeline.privacy.ledger.events import Event, inputs_of
from pipeline.questions.manifest import MANIFEST as ANSWER_MANIFEST
from pipeline.questions.manifest import AnswerManifest, is_answer_file, read_answer_file
from pipeline.release.manifest import Manifest, read_manifest
from pipeline.release.receipts import Receipt
from pipeline.runs.answers import statement_problems
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.paths import unchecked


@dataclass(frozen=True)
class KnownLedger:
    """A ledger, or an export of one."""

    id: str
    events: Sequence[Event]


@dataclass(frozen=True)
class Spending:
    """What published receipts of a dataset add up to.

    Attributes:
        unit: rho or epsilon; `cost`: exact.
        releases: how many different charges.
        exact: everything that they state as exact, as text.
    """

    ledger: str
    dataset: str
    unit: str
    cost: Fraction
    releases: int
    exact: tuple[str, ...]


@dataclass(frozen=True)
class ComparedReceipts:
    """What a comparison found.

    Attributes:
        problems: a sentence each.
        spending: of each dataset, in order of its name.
        uncharged: releases that no ledger has counted.
    """

    problems: tuple[str, ...]
    spending: tuple[Spending, ...]
    uncharged: tuple[str, ...]


#: Events that receipts name: of a later release in a series, that its period is drawn.
_CHARGES: Final = ("charge", "exact", "period")

Charging = Manifest | AnswerManifest
"""What states a charge."""


def find_manifests(paths: Iterable[Path]) -> dict[Path, Charging]:
    """The manifests at the paths: a manifest itself, the directory of a release or an answer, or a folder of several.

    Raises:
        InputError: there is none at a path.
        ReleaseError: a manifest is damaged.
    """
    found: dict[Path, Charging] = {}
    for path in paths:
        if path.is_file():
            files = [path]
        else:
            places = [path, *sorted(one for one in path.iterdir() if one.is_dir())] if path.is_dir() else []
            files = [
                place / name
                for place in places
                for name in ("manifest.json", "public/manifest.json", ANSWER_MANIFEST, f"public/{ANSWER_MANIFEST}")
                if (place / name).is_file()
            ]
        if not files:
            raise InputError(
                f"{path}: found no manifest; allowed are a manifest.json or answer.json, a release, an answer, and a "
                "folder of these"
            )
        added = [one for file in files for one in sorted(file.parent.glob(f"answers/*/{ANSWER_MANIFEST}"))]
        for file in (*files, *added):
            found[file.resolve()] = read_answer_file(unchecked(file)) if is_answer_file(file) else read_manifest(file)
    return found


def compare_receipts(manifests: Mapping[Path, Charging], ledger: KnownLedger | None) -> ComparedReceipts:
    """Compare the receipts with their manifests, with each other and, where they are of it, with the ledger."""
    problems: list[str] = []
    seen: dict[tuple[str, int], tuple[Receipt, Path]] = {}
    states = {} if ledger is None else replay(ledger.id, ledger.events)[0]
    distinct: dict[tuple[str, str], dict[tuple[int, str], Receipt]] = {}
    uncharged = []
    for path, manifest in manifests.items():
        if not manifest.receipts:
            uncharged.append(f"{_charged_as(manifest)} ({path})")
        problems += [f"{path}: {problem}" for problem in _unlike_manifest(manifest)]
        for receipt in manifest.receipts:
            place = (receipt.ledger, receipt.number)
            first, other = seen.setdefault(place, (receipt, path))
            if first.hash != receipt.hash:
                problems.append(
                    f"{path}: event {receipt.number} of the ledger {receipt.ledger[:12]} is another one than in "
                    f"{other}: the ledger was put back and used twice from there (a fork)"
                )
            elif (first.unit, first.cost) != (receipt.unit, receipt.cost):
                problems.append(
                    f"{path}: event {receipt.number} of the ledger {receipt.ledger[:12]} cost {receipt.unit} = "
                    f"{receipt.cost} here, and {first.unit} = {first.cost} in {other}"
                )
            distinct.setdefault((receipt.ledger, receipt.dataset), {})[receipt.number, receipt.hash] = receipt
            if ledger is not None and receipt.ledger == ledger.id:
                problems += [f"{path}: {problem}" for problem in _not_in_ledger(manifest, receipt, ledger, states)]
        if ledger is not None and isinstance(manifest, Manifest) and manifest.receipts:
            spec = ReleaseSpec.from_public_dict(manifest.spec, "manifest")
            problems += [f"{path}: {problem}" for problem in chosen_uncharged(spec, ledger.id, ledger.events)]
    spending = []
    for (name, dataset), receipts in sorted(distinct.items()):
        own = receipts.values()
        exact = {f"{e.what}{' of ' + e.universe if e.universe else ''}" for receipt in own for e in receipt.exact}
        cost = sum((Fraction(receipt.cost) for receipt in own), Fraction(0))
        unit = next(iter(own)).unit
        spending.append(Spending(name, dataset, unit, cost, len(own), tuple(sorted(exact))))
    for one in spending:
        state = states.get(one.dataset)
        if ledger is not None and one.ledger == ledger.id and (state is None or one.cost > state.spent):
            recorded = "nothing" if state is None else str(state.spent)
            problems.append(f"{one.dataset}: receipts add up to {one.unit} = {one.cost}, the ledger has {recorded}")
    return ComparedReceipts(tuple(problems), tuple(spending), tuple(uncharged))


def exact_of(universe: Universe, manifest: Manifest) -> set[tuple[str, str]]:
    """Universe and name of everything that it publishes exactly, with the inputs that were made from the records."""
    names = {f"{level}:{query.name}" for level, query in universe.invariants}
    names |= {f"bounds:{bound.name}" for bound in universe.bounds}
    if universe.structural_zeros.any():
        names.add("zeros")
    accepted = [one.name for one in manifest.provenance if one.accepted]
    names |= {f"inputs:{name}" for name in inputs_of(universe.name, accepted)}
    return {(universe.name, name) for name in names}


def _charged_as(manifest: Charging) -> str:
    """The name under which the ledger has the charge."""
    return ANSWER + manifest.answer if isinstance(manifest, AnswerManifest) else manifest.release


def _unlike_manifest(manifest: Charging) -> Iterable[str]:
    """What a manifest publishes, and its own receipts do not have."""
    if not manifest.receipts:
        return ()
    if isinstance(manifest, AnswerManifest):
        return statement_problems(manifest)
    spec = ReleaseSpec.from_public_dict(manifest.spec, "manifest")
    return [*chosen_elsewhere(spec, manifest.receipts), *receipt_problems(spec.universes(), manifest)]


def receipt_problems(universes: Sequence[Universe], manifest: Manifest) -> list[str]:
    """What a release costs and publishes exactly otherwise than its receipts state, without the ledger that has them.

    Args:
        universes: of the release.
        manifest: with receipts, one for each dataset.
    """
    receipts = {receipt.dataset: receipt for receipt in manifest.receipts}
    spent: dict[str, Fraction] = {}
    problems, published = [], set()
    for universe in universes:
        # Answers that were added have receipts of their own, in their manifests.
        spent[universe.dataset] = spent.get(universe.dataset, Fraction(0)) + universe.charged
        exact = exact_of(universe, manifest)
        published |= exact
        if (receipt := receipts.get(universe.dataset)) is None:
            problems.append(f"has no receipt for the dataset {universe.dataset!r}")
        else:
            missing = sorted(exact - {(one.universe, one.what) for one in receipt.exact})
            problems += [
                f"publishes {what}{' of ' + name if name else ''} exactly, which its receipt does not state"
                for name, what in missing
            ]
    stated = [(one.universe, one.what) for receipt in manifest.receipts for one in receipt.exact]
    problems += [
        f"{one[1][:60]!r} is stated as exact, and not published so, or twice"
        for number, one in enumerate(stated)
        if one not in published or one in stated[:number]
    ]
    unit = BUDGET_NAMES[universes[0].framework]
    due = {dataset: (unit, str(cost)) for dataset, cost in spent.items()}
    return problems + [
        f"{one.dataset!r} was charged {one.unit} = {one.cost}, and what is measured costs "
        f"{' = '.join(due.get(one.dataset, ('nothing', '0')))}"
        for one in manifest.receipts
        if due.get(one.dataset) != (one.unit, one.cost)
    ]


def _not_in_ledger(
    manifest: Charging, receipt: Receipt, ledger: KnownLedger, states: Mapping[str, DatasetState]
) -> Iterator[str]:
    release = _charged_as(manifest)
    if receipt.number > len(ledger.events):
        yield (
            f"its receipt is event {receipt.number}, but the ledger ends with event {len(ledger.events)}: it was put "
            "back to an older state, and what was spent since is not in it"
        )
        return
    event = ledger.events[receipt.number - 1]
    if event.hash != receipt.hash:
        yield (
            f"event {receipt.number} of the ledger is not the one of its receipt: the ledger was put back to an older "
            "state and used since (a fork)"
        )
        return
    if (event.dataset, event.release) != (receipt.dataset, release) or event.kind not in _CHARGES:
        yield f"event {receipt.number} of the ledger is no charge of {release!r} to {receipt.dataset!r}"
    elif (state := states.get(receipt.dataset)) is not None:
        yield from _unlike_charge(manifest, receipt, event.run, state)
    recorded = {
        (one.exact().universe, str(one.exact().subject))
        for one in ledger.events
        if one.kind == "exact" and (one.dataset, one.release) == (receipt.dataset, release)
    }
    for exact in receipt.exact:
        if (exact.universe, exact.what) not in recorded:
            yield f"its receipt states {exact.what} as exact, which the ledger does not"


def _unlike_charge(manifest: Charging, receipt: Receipt, run: str, state: DatasetState) -> Iterator[str]:
    """What the ledger was charged for the run otherwise than its receipt, or its manifest, states."""
    costs = {name: sum((Fraction(one.cost) for one in events), Fraction(0)) for name, events in state.runs.items()}
    charged = state.runs.get(run, ())
    if isinstance(manifest, AnswerManifest):
        possible = {costs.get(run, Fraction(0))}
        stated = sorted((manifest.place, part.mechanism, part.scale) for part in manifest.parts)
        if stated != sorted((one.level, one.mechanism, one.scale) for one in charged):
            yield "its areas, mechanisms and scales are not those that the ledger was charged for"
        asked = sorted(f"{part.name}: {manifest.question}" for part in manifest.parts)
        if asked != sorted(one.query for one in charged):
            yield "its question is not that which the ledger was charged for"
    else:
        possible = _costs_of_release(manifest, receipt, run, state, costs)
    if receipt.unit != state.unit or Fraction(receipt.cost) not in possible:
        recorded = " or ".join(map(str, sorted(possible))) or "nothing"
        yield f"its receipt states {receipt.unit} = {receipt.cost}, the ledger was charged {state.unit} = {recorded}"


def _costs_of_release(
    manifest: Manifest, receipt: Receipt, run: str, state: DatasetState, costs: Mapping[str, Fraction]
) -> set[Fraction]:
    """What a release can have cost: each histogram, and what its spec was decided from, is a run of the same key."""
    universes = ReleaseSpec.from_public_dict(manifest.spec, "manifest").universes()
    own_universes = [universe for universe in universes if universe.dataset == receipt.dataset]
    others = len(own_universes) - 1 + sum(universe.earlier is not None for universe in own_universes)
    key = None if run not in state.keys else state.keys[run].commitment
    beside = [
        costs[name]
        for name, events in state.runs.items()
        if name != run
        and events[0].release == manifest.release
        and (name not in state.keys or key in (None, state.keys[name].commitment))
    ]
    own = costs.get(run, Fraction(0))
    return {own + sum(chosen, Fraction(0)) for chosen in combinations(beside, max(others, 0))}


# -- ends of amounts that questions chose: one ledger counts both -----------------------------------------------------


def chosen_elsewhere(spec: ReleaseSpec, receipts: Sequence[Receipt]) -> Iterator[str]:
    """Each end whose cost is in another ledger than the release's own, or in another dataset, by its receipts."""
    charged = {receipt.dataset: receipt.ledger for receipt in receipts}
    for name, chosen in spec.chosen_ends.items():
        if charged.get(chosen.dataset) == chosen.ledger:
            continue
        own = charged.get(chosen.dataset)
        found = f"the ledger {own[:12]}" if own is not None else f"no receipt for the dataset {chosen.dataset!r}"
        yield (
            f"companions.{name}.between: the answer {chosen.answer.name} that chose the upper end was charged to the "
            f"ledger {chosen.ledger[:12]}, the release has {found}; one ledger counts both"
        )


def chosen_uncharged(spec: ReleaseSpec, ledger: str, events: Sequence[Event]) -> Iterator[str]:
    """Each end that says it was charged to this ledger, which has no charge for its question."""
    asked = {
        (event.dataset, event.query.partition(": ")[2])
        for event in events
        if event.kind == "charge" and event.release.startswith(ANSWER)
    }
    for name, chosen in spec.chosen_ends.items():
        if chosen.ledger == ledger and (chosen.dataset, chosen.question) not in asked:
            yield (
                f"companions.{name}.between: the ledger has no charge to {chosen.dataset!r} for the question that "
                f"chose the upper end, {chosen.question!r}"
            )
