"""The manifest of a run; its whole content follows from the spec, the public files, and the key's commitment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import cast

from pydantic import JsonValue

from pipeline.execution.job import Job
from pipeline.metadata.products import drawn_file
from pipeline.model.mixed import MixedNoise
from pipeline.model.universe import Universe
from pipeline.publishing.promises import promises_of
from pipeline.publishing.provenance import provenance_of
from pipeline.release.manifest import KeyStatement, Manifest, StatedDraw, public_files
from pipeline.release.receipts import charging
from pipeline.release.software import software


def manifest_of(job: Job, key: KeyStatement) -> Manifest:
    """The manifest of the files that are under public/.

    Args:
        job: the run, with what its steps have noted.
        key: what is said of the run's key and records.
    """
    receipts, promises = tuple(job.receipts), promises_of(job)
    return Manifest(
        release=job.spec.name,
        software=software(),
        status=job.status,
        spec=cast("dict[str, JsonValue]", job.spec.public_dict()),
        public_seed=job.spec.postprocess.seed,
        draws=draws_of(job),
        privacy=promises.statements if key.commitment else promises.made_elsewhere,
        accounts=promises.accounts,
        joint=promises.joint,
        households=promises.households,
        beyond_limits=promises.beyond_limits,
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
        solver=cast("dict[str, JsonValue]", dict(job.notes)),
        files=public_files(job.run),
    )


def draws_of(job: Job) -> tuple[StatedDraw, ...]:
    """All that is drawn of the records, by the public spec and the spine alone; nothing of what others drew."""
    return tuple(draw for universe in job.universes for draw in _draws(job, universe))


def _draws(job: Job, universe: Universe) -> Iterator[StatedDraw]:
    folder, stated = job.run.universe(universe.name), partial(StatedDraw, universe=universe.name)
    for use in () if universe.earlier is None else universe.earlier.uses:
        yield stated(level=use.level, query=use.query, file="", mechanism=use.mechanism, scales=(str(use.scale),))
    for draw in universe.draws(job.spine):
        if draw.drawn:
            noise = draw.noises[0]
            yield stated(
                level=draw.level,
                query=draw.query.name,
                file=job.run.name_of(drawn_file(folder, draw)),
                mechanism=draw.drawn[0].mechanism,
                scales=tuple(str(one.scale) for one in draw.drawn),
                kinds="" if draw.kinds is None else hashlib.sha256(draw.kinds.astype("<i8").tobytes()).hexdigest(),
                where_positive=draw.where_positive,
                weights=noise.row if isinstance(noise, MixedNoise) else (),
            )
    for one in universe.selections:
        file, versions = job.run.name_of(folder.selected(one.name, one.level)), one.select.versions
        of_it = partial(stated, level=one.level, file=file, versions=versions)
        yield of_it(query=one.select.stream_name, mechanism="exponential", scales=(str(one.select.epsilon),))
        yield of_it(query=one.select.measured_name, mechanism=one.noise.mechanism, scales=(str(one.noise.scale),))
