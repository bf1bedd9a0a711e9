"""What a release draws, and its files: by its spec and public inputs alone, before a record is opened.

Nothing is counted, charged or drawn by a plan that was not `checked`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from graphlib import CycleError, TopologicalSorter

import numpy as np

from geography.spine import Spine
from pipeline.execution.job import Job
from pipeline.metadata.products import ReleaseScope, drawn_file, files_of, products_of
from pipeline.model.draw import Draw, by_level, kinds_of
from pipeline.model.link import Link
from pipeline.model.mixed import MixedNoise
from pipeline.model.promise import Promise
from pipeline.model.universe import Universe
from pipeline.privacy.noise.mechanisms import NOISES
from pipeline.release.manifest import StatedDraw


@dataclass(frozen=True, eq=False)
class Plan:
    """What a release consists of; nothing is read.

    Attributes:
        scope: its spec, universes and directory.
        links: what its universes have in common.
        spine: the geography.
    """

    scope: ReleaseScope
    links: tuple[Link, ...]
    spine: Spine

    @cached_property
    def draws(self) -> tuple[StatedDraw, ...]:
        """All that is drawn of the records, or was received, as the manifest has it; nothing else that others drew."""
        return tuple(draw for universe in self.scope.universes for draw in self._drawn(universe))

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What people are promised: nothing, where others published all numbers, which needs no key and no ledger."""
        return tuple(promise for universe in self.scope.universes for promise in universe.promises)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all products below public/, product by product."""
        found = (dict.fromkeys(files_of(self.scope, one)) for one in products_of(self.scope.spec.of_features))
        return tuple(self.scope.run.name_of(file) for files in found for file in files)

    def spent(self, universe: Universe) -> Fraction:
        """What all that is drawn of a universe costs one person, at most: rho or epsilon, exact.

        Costs add up from the top to a leaf, and the geounits of a level have different people. A geounit that stands
        for others costs more, and those cost nothing (`geography.bypass`).
        """
        if universe.framework == "local":
            return Fraction(0)
        apart = Fraction(0) if universe.earlier is None else universe.earlier.cost
        apart += sum((one.cost for one in universe.uses if one.chosen), Fraction(0))
        apart += sum((one.cost for one in universe.added), Fraction(0))
        # The distinct costs of the paths so far, and which of these the path to each geounit has.
        paths, path = [apart], np.zeros(1, dtype=np.int64)
        drawn = by_level((draw for draw in universe.draws(self.spine) if draw.drawn), self.spine.level_names)
        for level, draws in zip(self.spine.levels, drawn, strict=True):
            kinds, costs = kinds_of(draws), _costs(universe, draws)
            drawn_in = 1 if kinds is None else 1 + kinds  # the cost of a geounit, by its number
            found, path = np.unique(path[level.parents] * len(costs) + drawn_in, return_inverse=True)
            paths = [paths[one // len(costs)] + costs[one % len(costs)] for one in found.tolist()]
        return max(paths)

    def checked(self) -> Plan:
        """The plan, of which all holds that holds of every release.

        Raises:
            ValueError: two products, or two draws, have the same file; a draw's file is of no product; universes are
                known by one another in a circle; or what is drawn costs more than is promised.
        """
        files = Counter(self.files)
        drawn = Counter(one.file for one in self.draws if one.file and one.mechanism in NOISES)
        for file in (*files, *drawn):
            if files[file] != 1 or drawn[file] > 1:
                raise ValueError(f"plan: {file} has {files[file]} products and {drawn[file]} draws")
        try:
            TopologicalSorter({link.of: {link.by} for link in self.links}).prepare()
        except CycleError as error:
            raise ValueError(f"plan: universes are known by one another in a circle: {error.args[1]}") from None
        for universe in self.scope.universes:
            if (spent := self.spent(universe)) > universe.budget:
                name = universe.name or "the release's own universe"
                raise ValueError(f"plan: what is drawn of {name} costs {spent}, and {universe.budget} is promised")
        return self

    def _drawn(self, universe: Universe) -> Iterator[StatedDraw]:
        run = self.scope.run
        folder, stated = run.universe(universe.name), partial(StatedDraw, universe=universe.name)
        for use in () if universe.earlier is None else universe.earlier.uses:
            name, scales = use.mechanism.mechanism, (str(use.mechanism.scale),)
            yield stated(level=use.level, query=use.query, file="", mechanism=name, scales=scales)
        for draw in universe.draws(self.spine):
            if draw.stated:
                noise = draw.noises[0]
                yield stated(
                    level=draw.level,
                    query=draw.query.name,
                    file=run.name_of(drawn_file(folder, draw)),
                    mechanism=draw.stated[0].mechanism,
                    scales=tuple(str(one.scale) for one in draw.stated),
                    kinds="" if draw.kinds is None else hashlib.sha256(draw.kinds.astype("<i8").tobytes()).hexdigest(),
                    where_positive=draw.where_positive,
                    weights=noise.row if isinstance(noise, MixedNoise) else (),
                )
        for one in universe.selections:
            file, versions = run.name_of(folder.selected(one.name, one.level)), one.select.versions
            of_it, select = partial(stated, level=one.level, file=file, versions=versions), one.select
            for query, used in ((select.stream_name, select.mechanism), (select.measured_name, one.noise)):
                yield of_it(query=query, mechanism=used.mechanism, scales=(str(used.scale),))


def _costs(universe: Universe, draws: Sequence[Draw]) -> list[Fraction]:
    """What a geounit of a level costs in which nothing is drawn, and one of each kind."""
    kinds = max((len(draw.drawn) for draw in draws), default=1)
    costs = (sum((universe.promise.cost(draw.drawn[kind]) for draw in draws), Fraction(0)) for kind in range(kinds))
    return [Fraction(0), *costs]


def plan_of(job: Job) -> Plan:
    """The plan of a job, checked once."""
    return job.once("plan", lambda: Plan(job, job.links, job.spine).checked())
