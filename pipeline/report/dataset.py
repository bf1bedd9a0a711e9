"""The report's description of the release for search engines and data portals."""

from __future__ import annotations

from pipeline.metadata.json_ld import dataset
from pipeline.metadata.products import (
    AMOUNTS,
    HOUSEHOLD_SIZES,
    HOUSEHOLD_TABLES,
    TABLES,
    ReleaseScope,
    described,
)
from pipeline.privacy.accounting.statement_models import promise
from pipeline.report.render import script_json
from pipeline.report.sources import ReportSources


def dataset_block(sources: ReportSources) -> str:
    """JSON-LD that can stand in a script element; addresses are those of the files from the page."""
    spec, run = sources.spec, sources.run
    labels = spec.labels()
    scope = ReleaseScope(spec, sources.universes, run)
    files = list(described(scope, TABLES, HOUSEHOLD_SIZES, HOUSEHOLD_TABLES, AMOUNTS))
    counted = [spec.labels(one.name).records or one.name or "people" for one in sources.universes]
    areas = ", ".join(f"{labels.level(level.name)} ({len(level):,})" for level in sources.spine.levels)
    words = (
        f"Counts of {' and of '.join(counted)} in every area of the levels {areas}. Differential privacy: "
        f"{promise(sources.joint, sources.statements[0].delta)}. Status: {sources.status}."
    )
    return script_json(dataset(spec.name, spec.about, words, [(file, run.name_of(file.source)) for file in files]))
