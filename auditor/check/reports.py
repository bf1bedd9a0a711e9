"""Of a release from randomised reports: how many were used, and what each of them spent."""

from __future__ import annotations

import math
from fractions import Fraction

from auditor.check.published import PublicRelease
from auditor.reading.findings import exact, understood
from auditor.reading.spec import read_json
from auditor.reading.values import Stated

#: By how much an epsilon, a logarithm that is rounded up, may differ from that computed here.
_ROUNDED = 1e-8


def check_reports(published: PublicRelease) -> None:
    """Compare reports used with those that areas have, which are exact; and budgets stated with the mechanism's."""
    files, manifest = published.files, published.manifest
    if not (collect := manifest["spec"].get("collect")):
        return
    own = published.spec.universe("")
    path, n = published.places.public / "reports.json", published.records(own)
    used = read_json(path, files.name(path)).get("used")
    if n is not None and used != n:
        said = f"{files.name(path)}: states that {used} reports were used, areas have {n}"
        files.check(path, "numbers of reports").fail(said)
    with understood("public/manifest.json: its statements about reports"):
        due = _budget(collect, own.cells.size)
        check = files.findings.check("public/manifest.json", "budgets")
        stated = manifest["privacy"][0], manifest["accounts"][0]["record"], manifest["joint"]
        for budget in sorted({one["budget"] for one in stated}):
            if abs(float(exact(budget)) - due) > _ROUNDED:
                check.fail(
                    f"public/manifest.json: states the budget {budget} of reports, their mechanism gives {due:.8g}"
                )


def _budget(collect: Stated, n_values: int) -> float:
    """What one report spends, with the central release of the same persons where there is one."""
    stated = {name: exact(text) for name, text in collect["parameters"] if name != "memoised"}
    epsilon = (
        float(stated["epsilon"]) if "epsilon" in stated else math.log(_ratio(collect["mechanism"], stated, n_values))
    )
    if (central := collect.get("central")) is None:
        return epsilon
    zcdp = central["framework"] == "zcdp"
    return float(exact(central["rho" if zcdp else "epsilon"])) + (epsilon**2 / 2 if zcdp else epsilon)


def _ratio(mechanism: str, stated: dict[str, Fraction], n_values: int) -> Fraction:
    """The largest ratio of two probabilities of one report, see docs/privacy.md ("Randomised reports")."""
    if mechanism == "rappor":
        half, p, q = stated["f"] / 2, stated["p"], stated["q"]
        p, q = p * (1 - half) + q * half, q * (1 - half) + p * half
        return (q * (1 - p) / (p * (1 - q))) ** int(stated["hashes"])
    if "q" in stated:
        return (1 - stated["q"]) / stated["q"]
    return stated["p"] * (n_values - 1) / (1 - stated["p"])
