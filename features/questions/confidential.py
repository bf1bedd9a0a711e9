"""Questions on the records: counted, charged, and only then answered with noise. No other function sees them for it.

The order is that of a run: the records are counted and fingerprinted, the ledger is charged before anything is drawn,
and the same question again, of the same records with the same key and budget, draws the same noise and costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from features.questions.kept import NOT_COUNTED, UnitsCounted, keep_counts, keep_question
from features.questions.work import QuestionWork
from pipeline.confidential.charge import charged_for, check_charged, own_ledger, receipt_of
from pipeline.confidential.custody import Keyholder
from pipeline.confidential.refusals import shielded
from pipeline.errors import InputError
from pipeline.model.content import content_sha256
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charges import Charge, run_fingerprint
from pipeline.privacy.ledger.dataset import ANSWER
from pipeline.privacy.ledger.events import Group, KeyUse, Moved
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.units import KeyedHash, kept_numbers, kept_records
from pipeline.questions.manifest import MANIFEST, MEASUREMENTS, AnswerManifest, read_answer
from pipeline.questions.quantiles import Ranked, losses
from pipeline.questions.resolved import Resolved
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.tables import Measurements, measurements_bytes
from pipeline.questions.windows import counts_in_windows, filtered, n_numbers
from pipeline.records.tabulate import (
    CountAccumulator,
    UnitRecords,
    read_units,
    tabulate,
    taken_to_ends,
    update_with_counts,
)
from pipeline.release.receipts import Receipt
from pipeline.release.run_directory import record_input, recorded_input
from pipeline.storage.files import write_bytes
from postprocess.arrays import IntArray

#: Separates the streams of questions from those of releases, whose context begins with a fingerprint.
_DOMAIN = "spinewise question 2"
#: Labels the keyed hash of what a question counts.
_LABEL = "input of a question"
#: Losses in memory at a time.
_AT_ONCE = 1 << 20


def answered(work: QuestionWork, holder: Keyholder) -> Mapping[str, object]:
    """See `pipeline.confidential.parts.Answering`."""
    if work.again is not None:
        return answer(work, holder.of_answer(work.again))
    return answer(work, holder.key(work.run))


def answer(work: QuestionWork, key: MasterKey) -> Mapping[str, object]:
    """Charge a question and write its noisy numbers; what may be said of it in public.

    Raises:
        RefusedError: the records cannot be counted.
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: there is no such ledger or dataset, or the key was used over other records.
    """
    before = None
    if work.again is not None:
        before = read_answer(work.again)
        if before.key_salt != _salt(work, key):
            raise InputError(
                f"{work.again.root}: the spec reads the records otherwise than when it was asked, or the answer is "
                "another question's; nothing was read or drawn"
            )
    counts, fingerprint, units = counted(work, key)
    charge = charge_of(work, key, fingerprint)
    if before is not None:
        receipts = refuse_other(work, before, key, fingerprint, charge)
        draw(work, key, fingerprint, counts)
        return _said(key, fingerprint, receipts, before.key_salt)
    record_input(work.run, {"question": fingerprint})
    # An independent redraw needs them.
    keep_question(work)
    keep_counts(work.run.restricted, work.run.staging, counts, units)
    with charged_for(work.run, charge) as charged:
        # From here on the directory changes; without a manifest it cannot be taken for a complete answer.
        (work.run.public / MANIFEST).unlink(missing_ok=True)
        draw(work, key, fingerprint, counts)
    return _said(key, fingerprint, (receipt_of(charged),), _salt(work, key))


def counted(work: QuestionWork, key: MasterKey) -> tuple[sp.csr_array[np.int64], str, UnitsCounted | None]:
    """The records by leaf and cell, their keyed fingerprint, and of units what is counted. Confidential."""

    def count() -> tuple[sp.csr_array[np.int64], UnitsCounted | None]:
        if work.records.unit is None:
            return tabulate(work.records, work.question.schema, work.spine), None
        found, at_most = read_units(work.records, work.question.read, work.spine), work.records.at_most or 1
        keyed = lambda data: key.keyed_hash("unit/", data).encode()  # noqa: E731
        units = units_counted(work.question, found, work.places, at_most, keyed)
        counts = CountAccumulator(work.spine.n_leaves, work.question.schema.n_cells)
        counts.add(units.counted[units.counted != NOT_COUNTED])
        return counts.finish(), units

    counts, units = shielded(work.run, "tabulate", count)
    digest = hashlib.sha256()
    update_with_counts(digest.update, counts)
    return counts, key.keyed_hash(_LABEL, digest.digest()), units


def units_counted(
    question: Resolved, found: UnitRecords, leaves: IntArray, at_most: int, keyed: KeyedHash
) -> UnitsCounted:
    """What is counted of units with several records, one for each record. Confidential.

    - of records: at most so many of each unit, whichever of them the conditions leave;
    - of amounts whose ends are those of a total: the records that the conditions leave, of a mean at most so many of
      each unit, as its count has; their amounts are then taken down to the ends;
    - of units: of the records that the conditions leave, one in each number, in at most so many numbers of each unit.

    Args:
        question: what is asked.
        found: the records, by the cells of `question.read`.
        leaves: `(n_leaves,)` the place of each leaf.
        at_most: records of a unit that are counted, or numbers that it is counted in.
        keyed: decides which.
    """
    units, keys, n_cells = found.units, found.cells, question.schema.n_cells
    rows = np.arange(len(units))
    if question.of == "record" or question.statistic == "mean":
        kept = kept_records(units, keys, found.names, at_most, keyed)
        rows, units, keys = rows[kept], units[kept], keys[kept]
    if (by := question.by_records) is not None:
        # All else is looked at first: a unit has as many records as the other conditions leave.
        counted, _, _ = question.placed(*np.divmod(keys * len(by.values), n_cells), leaves, records=False)
        rows, units, keys = rows[counted], units[counted], keys[counted]
        of_unit = np.minimum(np.bincount(units, minlength=len(found.names)), len(by.values))
        keys = keys * len(by.values) + of_unit[units] - 1
    if question.of != "record":
        counted, at, value = question.placed(*np.divmod(keys, n_cells), leaves)
        rows, units, keys, at, value = rows[counted], units[counted], keys[counted], at[counted], value[counted]
        if question.of == "unit":
            first = kept_numbers(units, at, found.names, at_most, keyed)
            rows, keys = rows[first], keys[first]
        elif (amount := question.amount) is not None:
            within, _ = taken_to_ends(units, value + amount.first, amount)
            keys = keys + (within - amount.first - value) * question.step_of(amount)
    as_counted = np.full(len(found.units), NOT_COUNTED, dtype=np.int64)
    as_counted[rows] = keys
    return UnitsCounted(found.units, found.cells, as_counted)


def charge_of(work: QuestionWork, key: MasterKey, fingerprint: str) -> Charge:
    """What the ledger must accept before anything is drawn: each part once, for all its places and groups."""
    run = run_fingerprint(
        key,
        input_fingerprint=fingerprint,
        spine_fingerprint=work.spine.fingerprint(),
        privacy_fingerprint=work.privacy_fingerprint(),
    )
    question, plan, n_places = work.question, work.plan, len(work.geocodes)
    n_around = n_numbers(len(question.candidates), plan.promise.framework)
    groups = tuple(
        Group(
            question.place,
            f"{one.part.name}: {question.text}",
            one.mechanism.mechanism,
            one.mechanism.scale,
            n_places * question.size * (n_around if one.part.name == "windows" else 1),
            _moved(work, one),
        )
        for one in plan.parts
    )
    layout = [_DOMAIN, work.spine.fingerprint(), question.layout(), work.reading]
    use = KeyUse(key.commitment(), "", content_sha256(layout), fingerprint)
    return Charge(
        plan.dataset, run, ANSWER + work.name, plan.promise.neighbours, groups, key=use, units=work.records.unit or ""
    )


def _moved(work: QuestionWork, one: MeasuredPart | Ranked) -> Moved:
    """How far one person's change moves a part."""
    if isinstance(one, Ranked) or one.part.of == "record":
        return Moved.by(reach=one.reach, records=work.plan.promise.records)
    return Moved.by(reach=one.reach, numbers=one.numbers if one.part.of == "unit" else 1)


def draw(work: QuestionWork, key: MasterKey, fingerprint: str, counts: sp.csr_array[np.int64]) -> None:
    """Write the true numbers plus noise, or what was chosen. Here a question's noise is added; nothing else leaves.

    The noise on number i of a part, or the choice of it, is that at position i of a stream of its own.
    """
    geocodes, question, plan = work.geocodes, work.question, work.plan
    numbers: list[IntArray] = []
    if question.rank is not None:
        choice, around = plan.parts
        assert isinstance(choice, Ranked)
        assert isinstance(around, MeasuredPart)
        histogram = question.histograms(counts, work.places, len(geocodes))
        steps = chosen(work, key, fingerprint, choice, histogram)
        true = filtered(counts_in_windows(histogram, steps), plan.promise.framework)
        noisy = true + noise_of(work, key, fingerprint, around, true.shape)
        numbers = [steps + choice.part.first, *noisy.T]
    else:
        truth = question.answers(counts, work.places, len(geocodes))
        for one in plan.parts:
            assert isinstance(one, MeasuredPart)
            true = truth[one.part.name]
            numbers.append(true + noise_of(work, key, fingerprint, one, true.shape))
    table = Measurements(question, geocodes, dict(zip(plan.columns, numbers, strict=True)))
    write_bytes(work.run.public / MEASUREMENTS, measurements_bytes(table), work.run.staging)


def noise_of(
    work: QuestionWork, key: MasterKey, fingerprint: str, one: MeasuredPart, shape: tuple[int, ...]
) -> IntArray:
    """The noise on a part's numbers, of a stream that depends on records, areas, and all of question and budget."""
    stream = _stream(work, key, fingerprint, one.part.name)
    return sampler_for(one.mechanism).draw(stream, 0, int(np.prod(shape))).reshape(shape)


def chosen(work: QuestionWork, key: MasterKey, fingerprint: str, one: Ranked, histogram: IntArray) -> IntArray:
    """The number of the step that is chosen for each group, `(n_groups,)`; the stream is bound as that of noise."""
    steps = np.empty(len(histogram), dtype=np.int64)
    stream = _stream(work, key, fingerprint, one.part.name)
    mechanism, at_once = one.mechanism, max(1, _AT_ONCE // histogram.shape[1])
    for start in range(0, len(histogram), at_once):
        rows = slice(start, start + at_once)
        steps[rows] = mechanism.draw(stream, losses(histogram[rows], one), start)
    return steps


def _stream(work: QuestionWork, key: MasterKey, fingerprint: str, part: str) -> bytes:
    context = (_DOMAIN, fingerprint, work.spine.fingerprint(), work.privacy_fingerprint())
    return key.stream_key(context, work.question.place, part)


def refuse_other(
    work: QuestionWork, manifest: AnswerManifest, key: MasterKey, fingerprint: str, charge: Charge
) -> tuple[Receipt, ...]:
    """The receipts of an answer by the ledger, if just this was drawn before, by record and by ledger.

    The public files can be made by anybody: a manifest that states rho = 1e9 must not be a way to read the records.

    Raises:
        InputError: it was not; nothing may be drawn again.
    """
    again = work.again or work.run
    stated = key.published_fingerprint(manifest.key_salt, "question", fingerprint)
    recorded = recorded_input(again) if again.record.exists() else None
    if stated != manifest.input_fingerprint or recorded not in (None, {"question": fingerprint}):
        raise InputError(f"the records are not those that {again.root} was made from; nothing was drawn")
    with own_ledger() as ledger:
        check_charged(ledger, again, [charge], "this answer")
        return tuple(receipt_of(charged) for charged in ledger.charged(charge))


def _salt(work: QuestionWork, key: MasterKey) -> str:
    return key.release_salt(f"answer/{work.name}/{work.privacy_fingerprint()}")


def _said(key: MasterKey, fingerprint: str, receipts: tuple[Receipt, ...], salt: str) -> Mapping[str, object]:
    return {
        "key_salt": salt,
        "key_commitment": key.commitment(salt),
        "input_fingerprint": key.published_fingerprint(salt, "question", fingerprint),
        "receipts": [receipt.model_dump_json() for receipt in receipts],
    }
