"""Small releases of shares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matrix.case import Case, Refusal, released
from releases.shared_town import write_shared_town


def _spread_is_stated(folder: Path) -> None:
    """Of each level and query that shares were used for; and where the public numbers are from."""
    manifest = json.loads((folder / "out" / "town" / "public" / "manifest.json").read_text("utf-8"))
    found = manifest["solver"]["estimate block"]["shares"]
    assert list(found) == ["beds", "quarters"]
    assert found["beds"]["total"]["tau2"] > 0
    assert "shares/beds.parquet" in manifest["files"]
    provenance = {one["name"]: one for one in manifest["provenance"]}
    assert provenance["shares"]["source"] == "public"
    assert len(provenance["shares"]["sha256"]) == 64


def _without_last_block(folder: Path) -> None:
    path = folder / "beds.csv"
    path.write_text("\n".join(path.read_text("utf-8").splitlines()[:-1]), "utf-8")


#: They would be published exactly; no acceptance makes up for that.
_OF_RECORDS: Final = '[provenance.inputs]\nshares = { source = "records" }\n[provenance]\naccept = ["shares"]\n\n'

CASES: Final[Sequence[Case]] = (
    released("shares", write_shared_town, "release.toml", "town", expect=_spread_is_stated, full=True),
)
REFUSALS: Final[Sequence[Refusal]] = (
    Refusal("shares", _without_last_block, ("postprocess.shares.beds", "beds.csv", "have no row: 'B0304'")),
    Refusal("shares", ("[publish]", f"{_OF_RECORDS}[publish]"), ("provenance.inputs.shares", "made from the records")),
)
