"""What measures: choices are of their epsilon, and what goes wrong leaves no file and tells nothing of the records.

Noise is bound to all tables that a release has of the same records: where one changes, nothing drawn stays.
"""

from __future__ import annotations

import errno
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from releases.chosen import write_chosen
from releases.command import feature_module
from releases.drawn import drawn_table, parts_of
from releases.made_case import made_case
from releases.small import public_bytes, run, write_town
from releases.updated import seal
from releases.wages import OVER, write_wages
from releases.wide import CHOSEN, write_wide

import pipeline.confidential.measure
from auditor.program import audit, audit_with
from pipeline.confidential.accuracy import TableErrors, accuracy_page
from pipeline.confidential.measure import measure_level, select_versions
from pipeline.confidential.refusals import shielded
from pipeline.confidential.steps import ConfidentialSteps
from pipeline.errors import InputError, RecordsError, RefusedError, SpinewiseError
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.model.texts.catalogue import Texts
from pipeline.pages.templates import Called
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.choices import Select
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import open_finished
from pipeline.release.histograms import write_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementWriter
from pipeline.release.run_directory import recorded_input
from pipeline.release.spine import read_public_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked
from postprocess.errors import InfeasibleError
from postprocess.marginal import Marginal


@pytest.mark.parametrize("what", ["add_answers", "write"])
def test_what_goes_wrong_in_a_thread_ends_the_stage_and_leaves_no_file_of_the_level(
    town_spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    spec = load_spec(town_spec)
    universe, spine = spec.universes()[0], read_spine(spec.geography)
    level, done = spine.levels[-1].name, []
    of = {"add_answers": Marginal, "write": MeasurementWriter}[what]
    works = getattr(of, what)

    def fails_at_last(*given: object) -> None:
        done.append(given)
        if len(done) > 5:
            raise OSError(errno.ENOSPC, "no space")
        works(*given)

    directory = RunDirectory(tmp_path / "run")
    for folder in (directory.staging, directory.universe("").true_histogram(level).parent):
        folder.mkdir(parents=True)
    counts = sp.csr_array(np.ones((len(spine.levels[-1]), universe.schema.n_cells), dtype=np.int64))
    place = (level, spine.levels[-1].geocodes, universe.schema)
    write_histogram(directory.universe("").true_histogram(level), directory.staging, *place, counts)
    job = Job(directory, spec, (universe,), spine, Workers(2), Silent())
    monkeypatch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 40)
    monkeypatch.setattr(of, what, fails_at_last)
    with pytest.raises(SpinewiseError, match="no space left"):
        measure_level(job, MasterKey.from_text("insecure-test:1"), "records", universe, level)
    assert not [*directory.staging.iterdir()]
    assert not [path for path in directory.public.rglob("*") if path.is_file()]


def test_records_that_break_a_bound_are_a_warning(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ("upper = 60", "upper = 5"))
    directory = RunDirectory(run(spec, tmp_path / "out"))
    assert "bounds 'group quarters': the records break it in" in directory.warnings.read_text()
    assert directory.warnings.stat().st_mode & 0o077 == 0


def test_a_companion_of_the_same_shape_has_noise_of_its_own(town_spec: Path) -> None:
    main, units = load_spec(town_spec).universes()
    assert replace(main, name="units").privacy_fingerprint() != main.privacy_fingerprint()
    assert units.privacy_fingerprint() != main.privacy_fingerprint()


# Choices


@pytest.fixture
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release that chooses privately how detailed a table is."""
    return made_case(tmp_path_factory, "chosen")


@pytest.fixture
def job(chosen: Path, tmp_path: Path) -> Job:
    """A copy of the release, to change."""
    return job_of(Path(shutil.copytree(chosen / "out" / "chosen", tmp_path / "chosen")))


def job_of(root: Path) -> Job:
    release = open_finished(root, check_hashes=False)
    spine = read_public_spine(unchecked(release.run.spine), release.spec.geography.level_names)
    return Job(release.run, release.spec, release.universes, spine, Workers(1), Silent())


def choose_again(job: Job, key: MasterKey) -> None:
    (universe,), fingerprints = job.universes, recorded_input(job.run)
    assert fingerprints is not None
    select_versions(job, key, fingerprints[""], universe, universe.selections[0])
    seal(job.run.root)


@pytest.mark.parametrize("key", [True, False])
def test_choices_of_another_epsilon_are_found(
    job: Job, chosen: Path, monkeypatch: pytest.MonkeyPatch, key: bool
) -> None:
    """Uniform choices, as of an epsilon near 0, though the file states the right one."""
    choose: Callable[..., np.ndarray] = Select.choose

    def uniform(self: Select, *arguments: object) -> np.ndarray:
        return choose(replace(self, epsilon=Fraction(1, 10**6)), *arguments)

    def failed() -> set[str]:
        # Without the key as for a test key: a search for weak keys takes most of the time.
        found = audit(job.run.root, chosen / "key") if key else audit_with(job.run.root, None, True, None)
        return {one.check for one in found if not one.passed}

    assert failed() == set()
    with monkeypatch.context() as patch:
        patch.setattr(Select, "choose", uniform)
        choose_again(job, MasterKey.read(chosen / "key"))
    assert failed() == {"choices found", *(["choices redrawn"] if key else [])}


#: Nearly all blocks tell 8 numbers, 450 in all, beside 62 others: half of their noise is found whatever the key.
DETAILED = (
    ('dataset = "people"', 'key = "insecure-test:1"'),
    ("thresholds = [0, 30, 60]", "thresholds = [0, 1, 2]"),
    ('queries = { race = "1" }', 'queries = { total = "1" }'),
)


@pytest.mark.slow
def test_half_of_the_noise_on_what_was_chosen_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the spread and the ranks that the audit looks at, and by the second program's tails; neither needs the key."""
    job = job_of(run(write_chosen(tmp_path / "in", *DETAILED), tmp_path / "out"))
    noise_findings = feature_module("features.audit.finished").noise_findings
    judges: tuple[Callable[[Path], Iterable[Any]], ...] = (noise_findings, audit)

    def failed() -> list[list[str]]:
        return [[one.check for one in judge(job.run.root) if not one.passed] for judge in judges]

    assert failed() == [[], []]
    half = lambda spec: sampler_for(replace(spec, scale=spec.scale / 4))  # noqa: E731
    monkeypatch.setattr(pipeline.confidential.measure, "sampler_for", half)
    choose_again(job, MasterKey.from_text("insecure-test:1"))
    ours, second = failed()
    assert ours == ["noise found", "noise found"]
    assert sorted(second) == ["noise redrawn", "tails"]


# What an error says of the records stays in a file that only its owner can read


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.staging.mkdir(parents=True)
    return run


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RecordsError("found 7654321"), 2),
        (InputError("found 7654321"), 2),
        (InfeasibleError("7654321 are more than fit"), 2),
        (SpinewiseError("found 7654321"), 1),
        (ValueError("7654321"), 1),
    ],
)
def test_the_error_that_is_raised_says_nothing(directory: RunDirectory, error: Exception, status: int) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RefusedError) as raised:
        shielded(directory, "tabulate", fail)
    assert raised.value.exit_status == status
    assert "7654321" not in f"{raised.value!r}{raised.value}"
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    assert "7654321" in directory.refusal.read_text()
    assert stat.S_IMODE(directory.refusal.stat().st_mode) == 0o600


# The restricted page of errors


@pytest.mark.parametrize("step", [13, 1000])
def test_errors_by_brute_force(step: int) -> None:
    whole = drawn_table(300, 4, seed=3)
    assert whole.margins is not None
    rng = np.random.default_rng(4)
    truth = np.maximum(0, whole.counts + rng.integers(-40, 41, whole.counts.shape))
    errors = TableErrors("t", "level")
    for start, part in zip(range(0, 300, step), parts_of(whole, step), strict=True):
        errors.add(part, truth[start : start + step])
    error = whole.counts - truth
    found = errors.whole
    assert (found.areas, found.numbers, found.largest) == (300, 1200, np.abs(error).max())
    assert found.l1 == pytest.approx(np.abs(error).sum(axis=1).mean())
    assert found.bias == pytest.approx(error.mean())
    assert found.rmse == pytest.approx(np.sqrt((error.astype(float) ** 2).mean()))
    expected = np.quantile(np.abs(error), [0.5, 0.9, 0.99], method="inverted_cdf")
    assert (found.half, found.nine, found.ninetynine) == tuple(expected)
    assert whole.lows is not None
    assert whole.highs is not None
    known = ~np.isnan(whole.lows)
    inside = (whole.lows <= truth) & (truth <= whole.highs)
    assert 0.1 < inside[known].mean() < 0.9
    assert found.covered == pytest.approx(inside[known].mean())
    assert sum(one.areas for one in errors.by_size) == 300
    assert [abs(one.error) for one in errors.largest] == np.sort(np.abs(error).ravel())[::-1][:5].tolist()
    fitness = errors.fitness
    assert fitness is not None
    people = truth.sum(axis=1)
    fit = [
        abs(c[t.argmax()] / max(1, c.sum()) - t.max() / max(1, t.sum())) <= 0.05
        for c, t in zip(whole.counts, truth, strict=True)
    ]
    assert (fitness.areas, fitness.fit) == ((people >= 500).sum(), np.array(fit)[people >= 500].sum())
    assert (fitness.all_areas, fitness.all_fit) == ((people > 0).sum(), np.array(fit)[people > 0].sum())


def test_the_restricted_page_is_marked_and_escapes_whatever_has_a_name() -> None:
    """Tables, levels, what is counted, and areas and answers among the largest errors, stated or not."""
    whole = replace(drawn_table(2, 2, seed=5), geocodes=np.array(["<i>0", "<i>1"]), labels=("<i>a", "<i>b"))
    called = Called("<i>table", "<i>level", {"<i>a": "<i>label"}, {"<i>0": "<i>area"})
    errors = [TableErrors("<i>t", "<i>l", calls) for calls in (called, Called())]
    for one in errors:
        one.add(whole, whole.counts + 1)
    page = accuracy_page("<i>release", "official", [("<i>persons", errors)], Texts())
    assert "RESTRICTED" in page
    assert "<i>" not in page
    names = ("table", "level", "label", "area", "0", "1", "a", "b", "t", "l", "release", "persons")
    assert [name for name in names if f"&lt;i&gt;{name}" not in page] == []


# Noise is bound to all tables of the same records


@dataclass(frozen=True)
class Drawn:
    """What was drawn with one key.

    Attributes:
        streams: keys of all streams of noise and choices.
        measured: files of measurements -> their bytes.
        fingerprints: of the records, as they are published.
    """

    streams: frozenset[bytes]
    measured: Mapping[str, bytes]
    fingerprints: frozenset[str]


class _StopError(Exception):
    """Everything is drawn; what comes after it is not looked at here."""


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Drawn]:
    """Measures by a spec, whose test key is always the same."""
    streams, published = set[bytes](), set[str]()
    sound = MasterKey.stream_key

    def noted(self: MasterKey, *place: Any) -> bytes:
        stream: bytes = sound(self, *place)
        streams.add(stream)
        return stream

    def end(self: ConfidentialSteps) -> None:
        published.update(self.statement().fingerprints.values())
        marginals = self.job.spec.public_dict().get("marginals") or {}
        published.update(text for name, text in (marginals.get("chosen") or {}).items() if name == "records")
        raise _StopError

    monkeypatch.setattr(MasterKey, "stream_key", noted)
    monkeypatch.setattr(ConfidentialSteps, "end", end)

    def drawn(spec: Path) -> Drawn:
        streams.clear()
        published.clear()
        with pytest.raises(_StopError):
            run(spec, spec.parent / "out")
        (root,) = (spec.parent / "out").iterdir()
        measured = {name: content for name, content in public_bytes(root).items() if "measurements/" in name}
        return Drawn(frozenset(streams), measured, frozenset(published))

    return drawn


def _change(records: Path, name: str) -> None:
    """Give the first record another value of a column: the next one that the file has."""
    header, first, *others = records.read_text("utf-8").splitlines()
    column, own = header.split(",").index(name), first.split(",")
    own[column] = next(text for line in others if (text := line.split(",")[column]) != own[column])
    records.write_text("\n".join([header, ",".join(own), *others]) + "\n", encoding="utf-8")


def write_both(folder: Path) -> Path:
    """Counts and amounts of the same persons."""
    folder.mkdir()
    return write_wages(folder, OVER)


@pytest.mark.parametrize(
    ("write", "name", "files"),
    [
        pytest.param(write_wide, "car", 12, id="cliques: a value"),
        pytest.param(lambda folder: write_wide(folder, CHOSEN), "car", 12, id="cliques that are chosen: a value"),
        pytest.param(lambda folder: write_wide(folder, CHOSEN), "block", 12, id="chosen: the area, within the top"),
        pytest.param(write_both, "wage", 2, id="counts and amounts: an amount"),
    ],
)
def test_nothing_that_is_drawn_stays_where_one_record_changes(
    draw: Callable[[Path], Drawn], tmp_path: Path, write: Callable[[Path], Path], name: str, files: int
) -> None:
    """With noise bound to each clique's own table, nine of twelve files stayed; with each universe's, all counts."""
    before, after = (write(tmp_path / folder) for folder in ("before", "after"))
    _change(after.parent / "persons.csv", name)
    one, other = draw(before), draw(after)
    assert len(one.measured) >= files
    assert write is not write_both or {file.split("/")[2] for file in one.measured} >= {"over", "wages"}
    assert [file for file, content in one.measured.items() if other.measured.get(file) == content] == []
    assert not one.streams & other.streams
    assert not one.fingerprints & other.fingerprints


def test_other_records_have_a_fingerprint_of_their_own(draw: Callable[[Path], Drawn], tmp_path: Path) -> None:
    """Units are no table of the persons: as docs/privacy.md says, their numbers stay where a person changes."""
    before, after = (write_town(tmp_path / folder) for folder in ("before", "after"))
    _change(after.parent / "persons.csv", "sex")
    one, other = draw(before), draw(after)
    same = {file for file, content in one.measured.items() if other.measured[file] == content}
    assert same == {file for file in one.measured if file.startswith("public/companions/units/")}
    assert len(one.fingerprints & other.fingerprints) == 1
