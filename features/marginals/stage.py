"""The private choice of cliques as a stage of a run, before anything else: what is asked, and the spec that follows.

What the measuring process answers is public once the release is: the pairs, where they were charged, and a fingerprint
of the tables that they were chosen by. An independent redraw needs those of pairs: they are kept in restricted/.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from features.marginals.choice import ChoiceTerms
from features.marginals.cliques import Clique
from features.marginals.division import decided
from features.marginals.section import ChosenPairsSection, MarginalsSection
from features.marginals.tree import Cliques
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import ReleaseSpec, spec_of
from pipeline.storage.files import write_bytes
from postprocess.arrays import IntArray

#: In restricted/: the true tables at the top of all pairs that could be chosen.
TABLES: Final = "choice.npz"


@dataclass(frozen=True)
class ChoiceWork:
    """A private choice to be made. Public, but for where the records are; sent to the measuring process.

    Attributes:
        run: the release's directory.
        release: its name, under which the ledger is charged.
        terms: on which it is made.
        attributes: all, in their order.
        records: how they are read, with all attributes.
        spine: the geography.
        dataset: the ledger's; "" where nothing is charged.
        again: the release whose choice is drawn again; `run` is then where to.
    """

    run: RunDirectory
    release: str
    terms: ChoiceTerms
    attributes: tuple[Attribute, ...]
    records: RecordSource
    spine: Spine
    dataset: str
    again: RunDirectory | None

    @property
    def layout(self) -> str:
        """SHA-256 over how the records are counted, however they are read: see `KeyUse`."""
        content = repr([self.spine.fingerprint(), [(one.name, *one.values) for one in self.attributes]])
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def reading(self) -> list[object]:
        """What the rows stand for."""
        return self.records.reading([one.name for one in self.attributes])


def work_of(
    spec: ReleaseSpec, universes: Sequence[Universe], spine: Spine, run: RunDirectory, again: RunDirectory | None = None
) -> ChoiceWork | None:
    """What is asked for a spec; None where its cliques are declared.

    Raises:
        InputError: the records are in memory.
    """
    own = universes[0]
    together = own.together
    if not isinstance(together, Cliques) or together.terms is None:
        return None
    sources = [universe.require_input() for universe in universes]
    if not isinstance(sources[0].file, Path):
        raise InputError("marginals.choose: pairs are chosen from records in a file; these are a table in memory")
    columns = {name: column for source in sources for name, column in source.columns.items()}
    values = {name: table for source in sources for name, table in source.values.items()}
    records = replace(sources[0], columns=columns, values=values)
    return ChoiceWork(run, spec.name, together.terms, together.attributes, records, spine, own.dataset, again)


def decided_spec(section: MarginalsSection, spec: ReleaseSpec, answer: Mapping[str, Any]) -> ReleaseSpec:
    """The spec with the cliques that were chosen.

    Args:
        section: of the spec, undivided.
        spec: before the choice.
        answer: of the measuring process: `pairs`, names of attributes, and the fields of a `ChosenPairsSection`.
    """
    together = spec.universes()[0].together
    assert section.undivided is not None
    assert isinstance(together, Cliques)
    assert together.terms is not None
    terms = together.terms
    pairs = [terms.domain.clique(names) for names in answer["pairs"]]
    cliques = list(map(terms.domain.named, terms.pairs.cliques(pairs)))
    chosen = ChosenPairsSection.model_validate({key: value for key, value in answer.items() if key != "pairs"})
    content = decided(section, cliques, chosen)
    found = spec_of(content, spec.source, section.undivided[1] or ".")
    # Areas may have been given in place of the file that the spec names.
    return found.model_copy(update={"geography": spec.geography})


def keep_tables(run: RunDirectory, tables: Mapping[Clique, IntArray]) -> None:
    """Keep the true tables of pairs in restricted/: arrays named by the attributes' numbers."""
    file = io.BytesIO()
    named: dict[str, Any] = {"-".join(map(str, pair)): table for pair, table in tables.items()}
    np.savez_compressed(file, **named)
    write_bytes(run.restricted / TABLES, file.getvalue(), run.staging, private=True)
