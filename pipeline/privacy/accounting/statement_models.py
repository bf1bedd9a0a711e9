"""The form of privacy statements, as manifests hold them; `statements` works them out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline.privacy.budget import Framework, Neighbours


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Statement(_Model):
    """One promise.

    Attributes:
        about: what is protected; `of` names the attribute, the level within which, or the size of the group.
        budget: rho or epsilon, exact.
        epsilon: that holds at the account's delta: the least of the bounds that are sound.
        zcdp: the bound from rho; None in the pure framework.
        losses: the bound from the distribution of the privacy loss, two numbers moved in each query; None where it is
            not computed (pure framework, groups, and what `pld.pld_epsilon` leaves out).
        words: the guarantee as text.
    """

    about: Literal["record", "attribute", "place", "group"]
    of: str
    budget: str
    epsilon: str
    zcdp: str | None
    losses: str | None
    words: str


class Comparison(_Model):
    """The epsilon of a record by other ways of counting, at the same delta.

    Attributes:
        basic, advanced, moments: sound, and larger; see `composition`.
        one_number: the distribution of losses as if each query were one number with sensitivity sqrt 2. NOT a bound.
        gaussian: of real-valued Gaussian noise of the same sigma^2. NOT a bound for noise on the whole numbers.
    """

    basic: str
    advanced: str
    moments: str
    one_number: str | None
    gaussian: str


class PrivacyAccount(_Model):
    """All statements about one universe ("" is the release's own, others are its companions).

    Attributes:
        delta: "0" in the pure framework.
        places: for each level but the lowest, top first.
    """

    universe: str
    framework: Framework
    neighbours: Neighbours
    delta: str
    record: Statement
    attributes: tuple[Statement, ...]
    places: tuple[Statement, ...]
    groups: tuple[Statement, ...]
    comparison: Comparison | None
