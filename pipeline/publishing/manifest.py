"""The manifest of a run; its whole content follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import cast

from pydantic import JsonValue

from pipeline.execution.job import Job
from pipeline.execution.steps import Notes
from pipeline.model.links.link import Link
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement
from pipeline.privacy.limits import beyond_limits
from pipeline.publishing.provenance import provenance_of
from pipeline.release.key_statement import KeyStatement
from pipeline.release.manifest import BeaconRound, Manifest, RowRoots, TableRoot, public_files
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.receipts import charging
from pipeline.release.rows import release_root, table_leaf
from pipeline.release.software import software

#: Members of a household for which its statement is made where joins allow any number.
MEMBERS = 7


@lru_cache(maxsize=16)
def account_of(universe: Universe) -> PrivacyAccount:
    """What the universe's budget means in epsilon; computed once for the report and the manifest."""
    from pipeline.privacy.accounting.statements import (
        privacy_statements,  # brings a large library, which reading does not need
    )

    return privacy_statements(universe)


@lru_cache(maxsize=16)
def joint_of(universes: tuple[Universe, ...]) -> Statement:
    """What one person costs over all of them; its epsilon is the release's in report, manifest and messages."""
    from pipeline.privacy.accounting.joint import joint_statement  # as above

    return joint_statement(universes, [account_of(universe) for universe in universes])


def households_of(universes: tuple[Universe, ...], links: Sequence[Link]) -> tuple[Statement, ...]:
    """What a household costs over all universes, for each joined companion: of the largest size that joins allow.

    Where they allow any size, it is stated for `MEMBERS` at least. None are stated where invariants let no record
    change alone.
    """
    from pipeline.privacy.accounting.joint import household_statement  # as above

    accounts = [account_of(universe) for universe in universes]
    stated = (
        household_statement(universes, accounts, link.by, members)
        for link in links
        if (members := link.together(MEMBERS)) is not None
    )
    return tuple(statement for statement in stated if statement is not None)


def manifest_of(job: Job, notes: Mapping[str, Notes], key: KeyStatement) -> Manifest:
    """The manifest of the files that are under public/.

    Args:
        job: the run.
        notes: of the steps, by name: what the solvers report.
        key: what is said of the run's key and records.
    """
    receipts = tuple(job.receipts)
    return Manifest(
        release=job.spec.name,
        software=software(),
        status=job.status,
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        public_seed=job.spec.postprocess.seed,
        privacy=tuple(privacy_statement(universe, made_elsewhere=not key.commitment) for universe in job.universes),
        accounts=tuple(account_of(universe) for universe in job.universes),
        joint=joint_of(job.universes),
        households=households_of(job.universes, job.links),
        beyond_limits=beyond_limits(job.universes),
        provenance=provenance_of(job),
        key_salt=key.salt,
        key_commitment=key.commitment,
        input_fingerprints=dict(key.fingerprints),
        charging=charging(
            receipts,
            local=job.spec.privacy.framework == "local",
            central=bool(job.universes[0].source.releases),
        ),
        receipts=receipts,
        solver=cast("dict[str, JsonValue]", dict(notes)),
        files=public_files(job.run),
        rows=row_roots(job),
        beacon=None if job.beacon is None else BeaconRound(**asdict(job.beacon)),
    )


def begin_rows(job: Job) -> None:
    """Begin in other processes the trees over the rows of the published tables, which are all written."""
    folders = [(universe.name, job.folder(universe).public / "tables") for universe in job.universes]
    job.begun["rows"] = [
        job.workers.begin(table_leaf, job.own(path), job.run.name_of(path), universe)
        for universe, folder in folders
        for path in sorted(folder.rglob("*.parquet"))
    ]


def row_roots(job: Job) -> RowRoots:
    """The roots of the trees over the rows of all published tables."""
    if "rows" not in job.begun:
        begin_rows(job)
    leaves = [leaf() for leaf in job.begun["rows"]]
    tables = {leaf.file: TableRoot(rows=leaf.rows, root=leaf.root) for leaf in leaves}
    return RowRoots(root=release_root(leaves).hex(), tables=tables)
