"""What must not occur in public files: secrets, plain hashes of what is confidential, true answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.audit.exact_noise import probabilities, reach_of
from pipeline.audit.findings import ALPHA
from pipeline.audit.release_reading import Expected, expected_measurements, truth_of
from pipeline.privacy.keys import MasterKey
from pipeline.published import PublishedRelease
from pipeline.records.tabulate import update_with_counts
from pipeline.storage.files import open_parquet, reading

__all__ = ["input_digests", "leaks"]

_METADATA: Final = {b"spinewise", b"ARROW:schema"}
_SOLVER_NOTES: Final = {
    "families",
    "by_solver",
    "primal_residual_at_most",
    "dual_residual_at_most",
    "solved_again_by_cvxpy",
    "largest_difference_at_most",
}


def input_digests(release: PublishedRelease) -> dict[str, bytes]:
    """Plain hash of each universe's confidential leaves."""
    digests = {}
    for universe in release.universes:
        digest = hashlib.sha256()
        update_with_counts(digest, truth_of(release, universe, release.spine.level_names[-1]))
        digests[universe.name] = digest.digest()
    return digests


def leaks(release: PublishedRelease, key: MasterKey | None) -> list[str]:
    """Whether a secret, a plain hash of what is confidential, or a true answer occurs in a public file."""
    secrets = [("a plain hash of the confidential counts", digest) for digest in input_digests(release).values()]
    # By chance a level of a small release equals the truth, byte for byte; its hash in the manifest is then its own.
    published = {hashlib.sha256(path.read_bytes()).digest() for path in release.run.public.rglob("*") if path.is_file()}
    for universe in release.universes:
        for level in release.spine.level_names:
            path = release.run.universe(universe.name).true_histogram(level)
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in published:
                secrets.append(("a plain hash of a restricted file", digest))
    if key is not None and not key.insecure and release.run.key.is_file():
        text = release.run.key.read_text("ascii").split()[-1]
        secrets.append(("the master key", bytes.fromhex(text)))
    if key is not None and release.manifest.key_salt:
        secrets.append(("the key's commitment without a salt", bytes.fromhex(key.commitment())))
        for name, digest in input_digests(release).items():
            fingerprint = bytes.fromhex(key.keyed_hash(f"input/{name}", digest))
            secrets.append(("the records' fingerprint without a salt", fingerprint))
    problems = []
    for path in sorted(path for path in release.run.public.rglob("*") if path.is_file()):
        label = f"public/{path.relative_to(release.run.public).as_posix()}"
        content = path.read_bytes()
        problems += [
            f"{label} holds {secret}"
            for secret, raw in secrets
            if raw in content or raw.hex().encode() in content.lower()
        ]
        if path.suffix == ".parquet":
            problems += [f"{label} {problem}" for problem in _metadata_problems(path)]
    problems += _true_columns(release)
    for step, notes in release.manifest.solver.items():
        if not isinstance(notes, dict) or set(notes) - _SOLVER_NOTES:
            problems.append(f"public/manifest.json: the notes of {step!r} contain more than solvers report")
    return problems


def _metadata_problems(path: Path) -> list[str]:
    with open_parquet(path) as file, reading(path):
        metadata = set(file.schema_arrow.metadata or {}) | set(file.metadata.metadata or {})
    strange = sorted(ascii(name.decode(errors="replace")) for name in metadata - _METADATA)
    return [f"has metadata that no release has: {', '.join(strange)}"] if strange else []


def _true_columns(release: PublishedRelease) -> list[str]:
    """Columns of measurements that equal true answers in every geounit, and could not by chance.

    Of tables and histograms it is `spinewise verify` that shows that they follow from the measurements: they can equal
    the truth in many places where bounds and invariants leave no choice.
    """
    problems = []
    for entry in expected_measurements(release.run, release.universes, release.spine):
        universe, level = entry.universe, entry.level
        rows = len(release.spine.level(level)) if entry.measured is None else len(entry.measured)
        if entry.also or not rows:
            continue
        is_zero = float(probabilities(entry.noise, reach_of(entry.noise)).max())
        if is_zero**rows >= ALPHA or _is_exact(release, entry):
            continue
        answers = entry.query.answer_csr(truth_of(release, universe, level))
        answers = answers if entry.measured is None else answers[entry.measured]
        columns = zip(entry.query.answer_labels(), answers.T, strict=True)
        true_columns = {column.tobytes(): label for label, column in columns if np.ptp(column) > 1}
        for path in sorted((release.run.universe(universe.name).public / "measurements" / level).glob("*.parquet")):
            for name, values in _columns(path, rows):
                if (label := true_columns.get(values.tobytes())) is not None:
                    name_in_public = path.relative_to(release.run.public).as_posix()
                    problems.append(
                        f"public/{name_in_public}: {name} is the truth of {entry.query.name} = {label} everywhere"
                    )
    return problems


def _is_exact(release: PublishedRelease, entry: Expected) -> bool:
    """Whether invariants at this level or below give the measurement's true answers."""
    for level, query in entry.universe.invariants:
        if release.spine.index_of(level) >= release.spine.index_of(entry.level):
            pairs = query.cell_answer * entry.query.size + entry.query.cell_answer
            if len(np.unique(pairs)) == len(np.unique(query.cell_answer)):
                return True
    return False


def _columns(path: Path, rows: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Columns of whole numbers `(rows,)` of a file, those in lists too."""
    with open_parquet(path) as file, reading(path):
        table = file.read()
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_integer(kind):
            yield name, np.ascontiguousarray(column.to_numpy(), dtype=np.int64)
        elif pa.types.is_list(kind) and pa.types.is_integer(kind.value_type):
            flat = column.combine_chunks().flatten().to_numpy()
            if rows and flat.size % rows == 0:
                for number, values in enumerate(flat.reshape(rows, -1).T):
                    yield f"{name}[{number}]", np.ascontiguousarray(values, dtype=np.int64)
