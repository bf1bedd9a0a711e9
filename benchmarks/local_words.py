"""The example state names words, of which the most frequent are listed: their counts in releases, by level."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from local_held import Measures, held_if_large, shown_if_large, shown_inverted, with_inverted_test
from local_state import summed
from numpy.typing import NDArray
from survey_of_state import PEOPLE, SPEC

from features.example.example import LEVELS, block_codes
from features.example.population import populate
from features.local.collect.bits import KeyedBytes
from features.local.collect.mechanism import Reports
from features.local.collect.rappor import Rappor
from features.local.collected import CollectedWords
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release

RAPPOR: Final = Rappor(32, 2, 64, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
#: Words that are said, and how many of them are listed.
SAID, LISTED = 2_200, 45
#: Counts of words are told apart by these sizes.
SIZES: Final = (1, 5, 20, 80)
#: Shares fall by e in so many ranks.
_RANKS: Final = 20


@dataclass(frozen=True, eq=False)
class StateWords:
    """Who says which word where.

    Attributes:
        spine: 25,000 blocks.
        blocks, said: `(PEOPLE,)` of each person: the number of the block, and of the word.
    """

    spine: Spine
    blocks: NDArray[np.int64]
    said: NDArray[np.int64]

    @classmethod
    def of(cls, seed: int) -> StateWords:
        """Shares of words differ between the 16 groups of people, and so between areas."""
        rng = np.random.default_rng(seed)
        spine = spine_from_prefixes(block_codes(seed), LEVELS)
        people = populate(spine, PEOPLE, seed).toarray()
        usual = np.exp(-np.arange(SAID) / _RANKS)
        blocks, said = [], []
        for of_group in people.T:
            shares = usual * np.exp(0.5 * rng.standard_normal(SAID))
            blocks.append(np.repeat(np.arange(len(people)), of_group))
            said.append(rng.choice(SAID, int(of_group.sum()), p=shares / shares.sum()))
        return cls(spine, np.concatenate(blocks), np.concatenate(said))

    def truth(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        """`(n_blocks, words + 1)` persons of each word, and of all others."""
        column = np.full(SAID, len(words))
        column[words] = np.arange(len(words))
        flat = self.blocks * (len(words) + 1) + column[self.said]
        return np.bincount(flat, minlength=self.spine.n_leaves * (len(words) + 1)).reshape(self.spine.n_leaves, -1)


def named(number: int) -> str:
    """A word."""
    return f"word {number}"


def _write(folder: Path, survey: StateWords, sent: Reports, words: tuple[str, ...]) -> Path:
    codes = survey.spine.leaf_level.geocodes[survey.blocks]
    columns = {"block": codes.tolist(), "cohort": sent[:, 0], "report": RAPPOR.encode(sent)}
    pq.write_table(pa.table(columns), folder / "reports.parquet")
    pq.write_table(survey.spine.to_table(), folder / "blocks.parquet")
    answers = ", ".join(f'"{word}"' for word in (*words, "other"))
    stated = ", ".join(f'{key} = "{value}"' for key, value in RAPPOR.parameters().items())
    spec = folder / "state.toml"
    text = SPEC.format(mechanism="rappor", epsilon="", answers=answers).replace('epsilon = ""', stated)
    spec.write_text(text)
    return spec


def words_of_state(runs: int) -> list[dict[str, float | str]]:
    """Print the table of levels; its rows are returned."""
    survey, sums = StateWords.of(1), dict[str, list[Measures]]()
    numbers = np.argsort(-np.bincount(survey.said, minlength=SAID), kind="stable")[:LISTED]
    words = tuple(map(named, numbers.tolist()))
    for seed in range(1, runs + 1):
        texts = [named(number) for number in survey.said.tolist()]
        sent = RAPPOR.randomise(texts, KeyedBytes(b"words of the state %12d" % seed))
        with tempfile.TemporaryDirectory() as name:
            spec = _write(Path(name), survey, sent, words)
            request = Request(spec=spec, out=Path(name) / "out", data=None, workers=2, key=KeySource())
            begun = time.perf_counter()
            run = RunDirectory(run_release(check_request(request), Silent()))
            print(f"survey {seed}: release in {time.perf_counter() - begun:.0f} s", flush=True)
            for level, one in _of_run(survey, run, numbers, words).items():
                sums.setdefault(level, []).append(one)
    print(f"{'level':11} {'areas':>6}  words: covered  error: release / alone / theory   others: the same")
    rows: list[dict[str, float | str]] = []
    for level, each in sums.items():
        row = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        row |= {key: value**0.5 for key, value in row.items() if key.split()[-1] in ("released", "alone", "theory")}
        rows.append({"level": level, **row})
        shown = [f"{level:11} {row['areas']:6.0f}"]
        for of in ("", "others "):
            errors = " / ".join(f"{row[of + name]:8.2f}" for name in ("released", "alone", "theory"))
            shown.append(f"{row[of + 'covered']:6.1%}  {errors}")
        print(*shown, sep="  ", flush=True)
    print(f"words, width, and covered (of how many): 0, to {', to '.join(str(size - 1) for size in SIZES[1:])}, more")
    for each_row in rows:
        by_size = (_by_size(each_row, of) for of in ("released", "true"))
        large = shown_if_large(each_row)
        print(
            f"{each_row['level']:11} {each_row['width']:8.2f}  of 10 and more: {large}", *by_size, sep="  ", flush=True
        )
    for each_row in rows:
        floats = {key: value for key, value in each_row.items() if isinstance(value, float)}
        print(f"{each_row['level']:11} {shown_inverted(floats)}", flush=True)
    return rows


def _by_size(row: Mapping[str, float | str], of: str) -> str:
    """Shares of counts that are held, by their size."""
    sizes = [(float(row[f"held {of} {size}"]), float(row[f"of {of} {size}"])) for size in range(len(SIZES) + 1)]
    return f"{of}: " + ", ".join(f"{held / n:.1%} ({n:,.0f})" if n else "-" for held, n in sizes)


def _of_run(
    survey: StateWords, run: RunDirectory, numbers: NDArray[np.int64], words: tuple[str, ...]
) -> dict[str, Measures]:
    collected, truth = CollectedWords(RAPPOR, words), survey.truth(numbers)
    totals = np.stack(pd.read_parquet(run.main.measurement("block", "answer")).value.to_list())
    names, found = [*words, "other"], {}
    for number, level in enumerate(survey.spine.levels):
        table = pd.read_parquet(run.main.table("answer", level.name))
        low, high, released = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90", ""))
        true, of_level = (summed(survey.spine, number, each) for each in (truth, totals))
        reports = true.sum(axis=1)
        some, alone = reports > 0, collected.debiased(of_level, reports)
        each: Measures = {"areas": float(some.sum())}
        for of, cells, times in (("", slice(0, -1), 1), ("others ", slice(-1, None), len(words))):
            each[f"{of}covered"] = float(((low <= true) & (true <= high))[some, cells].mean())
            each[f"{of}released"] = float(((released - true) ** 2)[some, cells].mean())
            each[f"{of}alone"] = float(((alone - true) ** 2)[some, cells].mean())
            each[f"{of}theory"] = times * float(collected.unit_variance) * float(reports[some].mean())
        inside = ((low <= true) & (true <= high))[some, :-1]
        each |= held_if_large(true[some, :-1], released[some, :-1], inside)
        ends = (low[some, :-1], high[some, :-1])
        each |= with_inverted_test(true[some, :-1], released[some, :-1], *ends, reports[some])
        each["width"] = float((high - low)[some, :-1].mean())
        for of, counts in (("released", released[some, :-1]), ("true", true[some, :-1])):
            sizes = np.digitize(counts, SIZES)
            each |= {f"of {of} {size}": float((sizes == size).sum()) for size in range(len(SIZES) + 1)}
            each |= {f"held {of} {size}": float(inside[sizes == size].sum()) for size in range(len(SIZES) + 1)}
        found[level.name] = each
    return found
