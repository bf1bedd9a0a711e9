"""What a deployed run may touch: specs and outputs below the folders that the worker's machine or the deployment names.

The parameters of a run come from whoever may speak to the server. A path among them is followed only below folders that
the worker's own settings allow, or, where they say nothing, those of what was deployed, which stand in the work pool.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pipeline.errors import InputError
from pipeline.execution.settings import Settings

#: Folders of what was deployed, as JSON: {"specs": [...], "outputs": [...]}; set by the work pool alone.
DEPLOYED: Final = "DEPLOYED_SPINEWISE_FOLDERS"


def deployed_folders(text: str | None) -> dict[str, list[str]]:
    """The folders of a work pool's environment; none where it has none."""
    try:
        content = json.loads(text or "{}")
        return {kind: [str(one) for one in content.get(kind, [])] for kind in ("specs", "outputs")}
    except (ValueError, AttributeError, TypeError):
        return {"specs": [], "outputs": []}


def check_allowed(settings: Settings, specs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]) -> None:
    """Refuse the parameters of a deployed run that lead out of the folders allowed.

    Args:
        settings: of the worker's machine.
        specs: parameters that are read, by name.
        outputs: parameters that are written to, by name.

    Raises:
        InputError: one leads elsewhere, with links followed.
    """
    deployed = deployed_folders(os.environ.get(DEPLOYED))
    below_specs = list(settings.allowed_specs) or [Path(one) for one in deployed["specs"]]
    below_outputs = list(settings.allowed_outputs) or [Path(one) for one in deployed["outputs"]]
    _check(specs, below_specs, "allowed_specs")
    _check(outputs, below_outputs, "allowed_outputs")


def _check(paths: Mapping[str, Path | None], folders: Sequence[Path], setting: str) -> None:
    resolved = [folder.expanduser().resolve() for folder in folders]
    for name, path in paths.items():
        if path is not None and not any(path.resolve().is_relative_to(folder) for folder in resolved):
            raise InputError(
                f"{name}: found {path}; a deployed run may use what is below "
                f"{', '.join(map(str, resolved)) or 'no folder at all'}; the setting {setting} of the worker's machine "
                "allows others"
            )
