"""What a release says of itself that follows from its spec alone; a run works it out before anything is charged.

Manifest and report take it from here, so that nothing of it can fail once the budget is spent. `validate`, and a run
before it reads a file, find out in less time that it can be said: they leave out the distributions of the privacy loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.metadata.products import ReleaseScope, resources
from pipeline.model.link import Link
from pipeline.model.universe import Universe, promised
from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement
from pipeline.privacy.limits import beyond_limits
from pipeline.release.layout import RunDirectory
from pipeline.release.privacy_statement import PrivacyStatement, privacy_statement
from pipeline.release.receipts import Receipt, charging
from pipeline.spec.release_spec import ReleaseSpec

#: Members of a household for which its statement is made where joins allow any number.
MEMBERS = 7


@dataclass(frozen=True, eq=False)
class Promises:
    """What a release promises, in figures and words.

    Attributes:
        statements, accounts: of each universe whose people are promised something, in their order.
        made_elsewhere: the statements where another program drew the noise.
        joint: what one person costs over all of them; its epsilon is the release's in report, manifest and messages.
            None where nobody is promised anything.
        households: what a household costs over all universes, for each joined companion.
        beyond_limits: what of it is beyond what is usual, a sentence each.
    """

    statements: tuple[PrivacyStatement, ...]
    made_elsewhere: tuple[PrivacyStatement, ...]
    accounts: tuple[PrivacyAccount, ...]
    joint: Statement | None
    households: tuple[Statement, ...]
    beyond_limits: tuple[str, ...]

    @classmethod
    def of(cls, universes: tuple[Universe, ...], links: Sequence[Link], *, losses: bool = True) -> Promises:
        """Those of the universes of a release.

        Args:
            universes: the release's own first.
            links: between them.
            losses: whether with the bounds from distributions of the privacy loss, which take a while; without them
                it is found out that the others can be stated.

        Raises:
            InputError: the budget or delta is out of range.
        """
        counted = promised(universes)
        accounts = tuple(account_of(universe, losses=losses) for universe in counted)
        return cls(
            tuple(privacy_statement(universe) for universe in counted),
            tuple(privacy_statement(universe, made_elsewhere=True) for universe in counted),
            accounts,
            _joint(counted, accounts, losses=losses) if counted else None,
            _households(counted, accounts, links) if counted else (),
            beyond_limits(universes),
        )


@lru_cache(maxsize=16)
def account_of(universe: Universe, *, losses: bool) -> PrivacyAccount:
    """What the universe's budget means in epsilon."""
    from pipeline.privacy.accounting.statements import (
        privacy_statements,  # brings a large library, which reading does not need
    )

    return privacy_statements(universe, losses=losses)


def _joint(universes: tuple[Universe, ...], accounts: Sequence[PrivacyAccount], *, losses: bool) -> Statement:
    from pipeline.privacy.accounting.statements import joint_statement  # as above

    return joint_statement(universes, accounts, losses=losses)


def _households(
    universes: tuple[Universe, ...], accounts: Sequence[PrivacyAccount], links: Sequence[Link]
) -> tuple[Statement, ...]:
    """Of the largest household that joins allow; where they allow any size, it is stated for `MEMBERS` at least.

    None are stated where invariants let no record change alone.
    """
    from pipeline.privacy.accounting.statements import household_statement  # as above

    stated = (
        household_statement(universes, accounts, link.by, members)
        for link in links
        if (members := link.together(MEMBERS)) is not None
    )
    return tuple(statement for statement in stated if statement is not None)


def charging_of(job: Job, receipts: tuple[Receipt, ...]) -> str:
    """What manifest and report say of the charge; "" where nobody is promised anything that could be charged."""
    local, central = job.spec.privacy.framework == "local", bool(job.universes[0].source.releases)
    return next((charging(receipts, local=local, central=central) for _ in promised(job.universes)), "")


def promises_of(job: Job) -> Promises:
    """Those of a release: worked out once."""
    return job.once("promises", lambda: Promises.of(job.universes, job.links))


def prepare_statements(job: Job) -> None:
    """Work out what a run will say; its promises are kept for those who write them.

    Raises:
        InputError: some of it cannot be said.
    """
    _say(job, promises_of(job))


@dataclass(frozen=True)
class _Planned:
    """A release that is not begun, as a `ReleaseScope`."""

    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    run: RunDirectory


def check_statements(spec: ReleaseSpec, universes: Sequence[Universe]) -> None:
    """Raises InputError where `prepare_statements` would; without what takes a while."""
    planned = _Planned(spec, tuple(universes), RunDirectory(Path(spec.name)))
    try:
        promises = Promises.of(planned.universes, spec.links(universes), losses=False)
    except InputError as error:
        raise InputError(
            f"privacy: what the budget promises one record, a group of them, a person or a household cannot be stated "
            f"({error})"
        ) from None
    _say(planned, promises)


def _say(scope: ReleaseScope, promises: Promises) -> None:
    resources(scope)
    for one in scope.spec.of_features:
        one.check_statement(scope, promises)
