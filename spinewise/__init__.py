"""Spinewise from Python: from confidential records to a protected release, in a script or a notebook.

    import spinewise as sw

    spec = sw.Spec.read("release.toml")
    sw.plan(spec)                                           # errors and memory, before anything is spent
    release = sw.run(spec, records=persons, areas=blocks)   # pandas, polars or Arrow tables, or paths
    release.table("race", level="county")                   # counts with their margins of error
    sw.verify(release.directory)

This package is all that a user imports. It is thin: each name is imported from its module at first use, so that
importing the package costs next to nothing and loads neither Prefect nor a solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spinewise.own_packages import check_own_packages

if TYPE_CHECKING:
    from pipeline.errors import BudgetRefusedError, InputError, RefusedError, ReleaseError, SpecError, SpinewiseError
    from pipeline.privacy.ledger.ledger import Ledger
    from pipeline.reading.release import Release, open_release
    from pipeline.reading.rubin import Pooled, rubin
    from spinewise.answers import Answer, update
    from spinewise.ledgers import open_ledger
    from spinewise.pictures import plot
    from spinewise.plans import ReleasePlan, plan
    from spinewise.questions import Dataset, Question, open_dataset
    from spinewise.runs import estimate, rerun, run
    from spinewise.specs import Spec
    from spinewise.verification import RerunResult, Verification, verify

__all__ = [
    "Answer",
    "BudgetRefusedError",
    "Dataset",
    "InputError",
    "Ledger",
    "Pooled",
    "Question",
    "RefusedError",
    "Release",
    "ReleaseError",
    "ReleasePlan",
    "RerunResult",
    "Spec",
    "SpecError",
    "SpinewiseError",
    "Verification",
    "estimate",
    "open_dataset",
    "open_ledger",
    "open_release",
    "plan",
    "plot",
    "rerun",
    "rubin",
    "run",
    "update",
    "verify",
]

#: Where each public name is defined.
_HOMES = {
    "pipeline.errors": (
        "BudgetRefusedError",
        "InputError",
        "RefusedError",
        "ReleaseError",
        "SpecError",
        "SpinewiseError",
    ),
    "pipeline.privacy.ledger.ledger": ("Ledger",),
    "pipeline.reading.release": ("Release", "open_release"),
    "pipeline.reading.rubin": ("Pooled", "rubin"),
    "spinewise.answers": ("Answer", "update"),
    "spinewise.ledgers": ("open_ledger",),
    "spinewise.pictures": ("plot",),
    "spinewise.plans": ("ReleasePlan", "plan"),
    "spinewise.questions": ("Dataset", "Question", "open_dataset"),
    "spinewise.runs": ("estimate", "rerun", "run"),
    "spinewise.specs": ("Spec",),
    "spinewise.verification": ("RerunResult", "Verification", "verify"),
}

check_own_packages()

from features.registry import is_installed  # noqa: E402

for _feature, _home in (("plan", "spinewise.plans"), ("questions", "spinewise.questions")):
    if not is_installed(_feature):
        for _name in _HOMES.pop(_home):
            __all__.remove(_name)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported at first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("spinewise")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'spinewise' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
