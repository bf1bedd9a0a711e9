"""Faults planted in the program or in a release, each one that would break a promise, and what catches it.

`PLANTED` is the table of docs/testplan.md; `test_mutations` plants each, and holds the table true.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pipeline.confidential.measure
import pipeline.privacy.accounting.statements as statements
import pipeline.privacy.noise.choices
from auditor.contents import canonical
from pipeline.model.promise import Promise
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.choices import Exponential, Select
from releases.answer_mutants import ANSWERS
from releases.kind_mutants import AMOUNTS, JOINED, POSITIVES, READINGS
from releases.mutant import Edit, Mutant, Patch, Plant, attribute, mutant, resealed, rewritten
from releases.tested_mutants import DOUBLED_COINS, TESTED, TESTED_SLOWLY, text

_DRAW, _DRAWN = "pipeline.privacy.noise.sampler:Sampler.draw", "return out"
_STREAM, _PLACE = "pipeline.privacy.keys:MasterKey.stream_key", "*context, level, query)"
_STATED, _CHARGED = "pipeline.privacy.accounting.statements:", "pipeline.privacy.ledger.charges:charge_for"
_KEYED = ("pipeline.privacy.keys:MasterKey.keyed_hash",
          'hmac.digest(_derive(self._secret, "keyed hash", label), data, "sha256").hex()')  # fmt: skip
_FLOATS = "np.random.default_rng([start, *stream_key]).normal(0, float(self.spec.scale) ** 0.5, count)"
_MOST = "int(3 * self.spec.variance**0.5)"
#: Where the upper tail has the probability 2^-16.
_AT_WORD = "np.searchsorted(self.boundaries, np.uint64(2**64 - 2**48)) - self.boundaries.size // 2"


def _smaller(part: int) -> Plant:
    other = f"self = sampler_for(type(self.spec)(self.spec.scale / {part}))"
    return text(_DRAW, "if start < 0", f"{other}\n        if start < 0")


def _restarted(patch: Patch) -> None:
    patch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 24)
    text(_DRAW, "if start < 0", "start = 0\n        if start < 0")(patch)


def _doubled_choice(patch: Patch) -> None:
    """A choice is charged for a sensitivity of 1 where neighbours move two losses."""
    patch.setattr(pipeline.privacy.noise.choices, "MOVED", {"change-one": 1, "add-remove": 1})
    cost = Promise.cost
    patch.setattr(Promise, "cost", lambda self, used: cost(self, used) / (2 if isinstance(used, Exponential) else 1))


def _sixteen_bits(patch: Patch) -> None:
    def generate(cls: type[MasterKey]) -> MasterKey:
        import secrets

        return cls(hashlib.sha256(secrets.token_bytes(2)).digest())

    patch.setattr(MasterKey, "generate", classmethod(generate))


def _charge_late(patch: Patch) -> None:
    charging, drawing = (f"self._perform_all(self.source.{step}())" for step in ("charging", "drawing"))
    text("pipeline.run:ReleaseRun._charge", charging, "")(patch)
    text("pipeline.run:ReleaseRun._measure", drawing, f"{drawing}\n        {charging}")(patch)
    text("pipeline.confidential.steps:ConfidentialSteps.__init__", "may_draw = False", "may_draw = True")(patch)


def _more_invariants(patch: Patch) -> None:
    measure = pipeline.confidential.measure.measure_level

    def more(job: Any, key: Any, fingerprint: str, universe: Any, level: str) -> None:
        total = next(one.query for one in universe.strategy.level("block").queries if one.query.name == "total")
        measure(job, key, fingerprint, replace(universe, invariants=(*universe.invariants, ("block", total))), level)

    patch.setattr("pipeline.confidential.parts.measure_level", more)


def people(root: Path) -> int:
    """The true number of persons, which is confidential where it is no invariant."""
    return sum(pq.read_table(root / "restricted" / "histograms" / "block.parquet").column("count").to_pylist())


def _telling(change: Callable[[dict[str, Any], int], object]) -> Edit:
    """The manifest says the true number of persons somewhere."""
    return lambda root: resealed(root, lambda content: change(content, people(root)))


def _in_header(root: Path) -> None:
    def change(table: Any) -> Any:
        header = json.loads(table.schema.metadata[b"spinewise"])
        return table.replace_schema_metadata({b"spinewise": canonical({**header, "persons": people(root)})})

    rewritten(root, "measurements/block/total.parquet", change)


def _in_field(root: Path) -> None:
    def change(table: Any) -> Any:
        field = table.schema.field("variance").with_metadata({"unit": str(people(root))})
        return table.cast(table.schema.set(table.schema.get_field_index("variance"), field))

    rewritten(root, "measurements/block/total.parquet", change)


def _in_created_by(root: Path) -> None:
    """In the footer of a Parquet file, where it says which program wrote it."""
    path = root / "public" / "measurements" / "block" / "total.parquet"
    data = path.read_bytes()
    old = b"parquet-cpp-arrow version"
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, f"parquet-cpp-arrow{people(root):08d}".encode()))
    resealed(root)


def _table(root: Path) -> None:
    """The table of the counties' races is true."""
    truth = pq.read_table(root / "restricted" / "histograms" / "county.parquet").to_pandas()
    counts = truth.astype({"geocode": str, "race": str}).groupby(["geocode", "race"])["count"].sum()

    def change(table: pa.Table) -> pa.Table:
        for race in "abc":
            right = [int(counts.get((code, race), 0)) for code in table.column("geocode").to_pylist()]
            place = table.column_names.index(race)
            table = table.set_column(place, table.schema.field(place), pa.array(right, pa.int64()))
        return table

    rewritten(root, "tables/race/county.parquet", change)


def _children_apart(root: Path) -> None:
    """A person is in a county and in none of its blocks."""

    def change(table: pa.Table) -> pa.Table:
        counts = table.column("count").to_pylist()
        counts[0] += 1
        place = table.column_names.index("count")
        return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int64()))

    rewritten(root, "histograms/county.parquet", change)


def _stated(change: Callable[[dict[str, Any]], object]) -> Edit:
    """The manifest says something else."""
    return lambda root: resealed(root, change)


def _further_file(root: Path) -> None:
    """A level was measured once more, and the manifest says so."""
    folder = root / "public" / "measurements" / "block"
    shutil.copy(folder / "total.parquet", folder / "again.parquet")
    resealed(root, lambda content: content["files"].update({"measurements/block/again.parquet": {}}))


PLANTED: tuple[Mutant, ...] = (
    mutant("a quarter of the variance is drawn", "sa", plant=_smaller(4)),
    mutant("a hundredth of the variance is drawn under an honest list", "sa", plant=_smaller(100)),
    mutant("a sensitivity of 1 for 2, in every scale and statement", "sc", plant=text(
        "pipeline.privacy.noise.mechanisms:noise_for", "MOVED[neighbours]", "1")),
    mutant("noise of rounded floats", "s", plant=text(_DRAW, _DRAWN, f"return np.rint({_FLOATS}).astype(np.int64)")),
    mutant("a measurement without noise", "sa", plant=text(_DRAW, _DRAWN, "return 0 * out")),
    mutant("tails cut at 3 sigma", "i", on="installed",
           plant=text(_DRAW, _DRAWN, f"return np.clip(out, -{_MOST}, {_MOST})")),
    mutant("the upper tail cut at 2^-16", "i", on="installed",
           plant=text(_DRAW, _DRAWN, f"return np.minimum(out, int({_AT_WORD}))")),
    mutant("the last boundary of the sampler's table moved by 2^-44", "i", on="installed", plant=text(
        "pipeline.privacy.noise.sampler:boundaries", "return ", "above[-1] -= np.uint64(1 << 20)\n    return ")),
    mutant("one stream for all queries of a level", "sa",
           plant=text(_STREAM, _PLACE, '*context, level, "all")')),
    mutant("one stream for all levels", "s", plant=text(_STREAM, _PLACE, '*context, "all", query)')),
    mutant("streams that do not depend on the records", "s", plant=text(_STREAM, _PLACE, f"*context[1:]{_PLACE[8:]}")),
    mutant("a stream that begins again with every batch", "sa", plant=_restarted),
    mutant("fingerprints that do not depend on the records", "s", plant=text(*_KEYED, '"0123456789abcdef" * 4')),
    mutant("a plain hash of the records for a keyed one", "s", plant=text(*_KEYED, "hashlib.sha256(data).hexdigest()")),
    mutant("a master key of 16 bits", "s", plant=_sixteen_bits, on="ledger"),
    mutant("new keys of 16 bits", "i", plant=_sixteen_bits, on="installed"),
    mutant("permute-and-flip with coins of twice the epsilon", "i", plant=DOUBLED_COINS, on="installed"),
    mutant("a choice charged for a sensitivity of 1", "s", plant=_doubled_choice),
    mutant("a choice of the best version, without noise", "s",
           plant=attribute(Select, "choose", lambda self, _key, people, _start=0: self.losses(people).argmin(axis=1))),
    mutant("the true total among the solvers' notes", "sv", edit=_telling(
        lambda m, n: next(iter(m["solver"].values())).update(families=n, by_solver={"batched": n}))),
    mutant("the true total in a figure of the account", "v", edit=_telling(
        lambda m, n: m["accounts"][0]["comparison"].update(basic=f"{n}.0000"))),
    mutant("the true total in the words of a statement", "sv", edit=_telling(
        lambda m, n: m["privacy"][0].update(words=f"{m['privacy'][0]['words']} There are {n} records."))),
    mutant("the true total in the version of a package", "sv", edit=_telling(
        lambda m, n: m["software"]["packages"].update(numpy=f"2.4.6+{n}"))),
    mutant("the true total in the header of a Parquet file", "sv", edit=_in_header),
    mutant("the true total in the metadata of a column", "s", edit=_in_field),
    mutant("the true total in the name of a file's writer", "s", edit=_in_created_by),
    mutant("a true table", "vc", edit=_table),
    mutant("an invariant that the spec does not have", "svc", plant=_more_invariants),
    mutant("a test key under the status official", "sv", edit=_stated(lambda m: m.update(status="official"))),
    mutant("epsilon of rho 10 % too small", "s", plant=text(
        "pipeline.privacy.accounting.statement_models:statement_of",
        "zcdp_epsilon(budget", "0.9 * zcdp_epsilon(budget")),
    mutant("epsilon of the losses 5 % too small", "s", plant=text(
        f"{_STATED}_Account.statement",
        "pld_epsilon(uses, self.delta)", "0.95 * (pld_epsilon(uses, self.delta) or 0)")),
    mutant("an attribute that is said to move one answer", "s", plant=attribute(statements, "_MOVES", 1)),
    mutant("another budget in a statement", "sv", edit=_stated(lambda m: m["privacy"][0].update(budget="1/7"))),
    mutant("a draw that is not in the list of draws", "svc", edit=_stated(lambda m: m["draws"].pop())),
    mutant("a draw in the list for which no spec calls", "svc",
           edit=_stated(lambda m: m["draws"].append({**m["draws"][0], "query": "again"}))),
    mutant("another scale in the list of draws", "svc", edit=_stated(lambda m: m["draws"][1].update(scales=["7"]))),
    mutant("another kind of areas in the list of draws", "svc",
           edit=_stated(lambda m: m["draws"][0].update(kinds="0123456789abcdef" * 4))),
    mutant("a measured file that no spec gives", "svc", edit=_further_file),
    mutant("a spec that was altered afterwards", "svc", edit=_stated(lambda m: m["spec"]["privacy"].update(rho="1/7"))),
    mutant("a section of the manifest that nobody knows", "v", edit=_stated(lambda m: m.update(men={"A": 80}))),
    mutant("a section of the spec that nobody knows", "svc", edit=_stated(lambda m: m["spec"].update(men={"A": 80}))),
    mutant("sums outside of the ends that the spec states", "sc", on="amounts", edit=_stated(
        lambda m: dict(m["spec"]["companions"])["wages"].update(between=["0", "300"]))),
    mutant("a county that is not the sum of its blocks", "vc", edit=_children_apart),
    mutant("a charge after drawing", "i", plant=_charge_late, on="installed"),
    mutant("a query charged at half its price", "sv", on="ledger",
           plant=text(_CHARGED, "  one.mechanism.scale,\n", "  one.mechanism.scale * (1 + (one.query == 'total')),\n")),
    mutant("a level that is not charged", "sv", on="ledger",
           plant=text(_CHARGED, "in universe.uses", "in universe.uses if one.chosen or one.level != 'county'")),
    mutant("a choice that is not charged", "s", on="ledger",
           plant=text(_CHARGED, "in universe.uses", "in universe.uses if one.query[:7] != 'select '")),
    mutant("numbers of what was chosen that are not charged", "s", on="ledger",
           plant=text(_CHARGED, "in universe.uses", "in universe.uses if one.query[:9] != 'selected '")),
    mutant("a ledger that forgets", "s", on="ledger",
           edit=lambda root: shutil.copy(root.parent / "ledger-before.db", root.parent / "ledger.db")),
)  # fmt: skip
PLANTED += JOINED + AMOUNTS + ANSWERS + POSITIVES + READINGS + TESTED + TESTED_SLOWLY
