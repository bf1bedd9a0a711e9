"""The audits of `spinewise audit`: of what is installed, and of a finished release."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flows.audits.end_to_end import pipeline_findings
from flows.confidential.custody import KeySource, key_of_release
from flows.execution.progress import Silent
from flows.execution.workers import Workers
from flows.runs.verify import verify_release
from pipeline.audit.findings import Audit, Finding, certain
from pipeline.audit.release_checks import release_findings
from pipeline.audit.release_reading import open_audited
from pipeline.audit.samplers import FULL, QUICK, sampler_findings
from pipeline.audit.streams import stream_findings
from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import Event
from pipeline.privacy.ledger.ledger import Ledger, RunFingerprint
from pipeline.published import PublishedRelease
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import software

#: Told each finding as it comes.
Tell = Callable[[Finding], None]

#: Runs of the measuring stage and of whole releases, full and quick.
_RUNS = ((1500, 700), (300, 0))


def audit_installed(*, quick: bool, seed: int, workers: int, tell: Tell) -> Audit:
    """Test the installed samplers, streams and pipeline, with public test keys; nothing confidential is touched.

    Args:
        quick: about half a minute instead of several: fewer scales, and the measuring stage of one case alone.
        seed: the same seed and versions give the same findings.
    """
    extent, (measured, whole) = (QUICK, _RUNS[1]) if quick else (FULL, _RUNS[0])
    findings = _told(stream_findings(seed), tell) + _told(sampler_findings(extent, seed), tell)
    with Workers(workers) as pool:
        findings += _told(pipeline_findings(measured, whole, seed, pool), tell)
    about = _about() | {
        "extent": "quick" if quick else "full",
        "seed": str(seed),
        "draws of each distribution": f"{extent.draws:,}",
        "runs of the measuring stage": f"{measured:,} of each input, case and arm",
        "runs to the release": f"{whole:,} of each input and arm",
    }
    return Audit("Audit of the installed Spinewise", tuple(findings), about)


def audit_release(run: RunDirectory, source: KeySource, ledger: str | None, workers: int, tell: Tell) -> Audit:
    """Audit a finished release with its restricted/ folder.

    Args:
        source: of its key, where the run did not keep it. Without any key the noise is tested by distribution alone.
        ledger: place of the ledger that was charged; None if none was.

    Raises:
        InputError: there is no finished release, its true counts were not kept, or the key is another.
    """
    release = open_audited(run.root)
    if not run.restricted.is_dir():
        raise InputError(f"{run.root}: has no restricted/ folder; without the true counts there is nothing to audit")
    given = source != KeySource() or run.key.exists()
    key = key_of_release(run, source) if given else None
    events = None if ledger is None else _charged(ledger, release, key)
    findings = _told(release_findings(release, key, events), tell)
    problems = verify_release(run, workers, Silent())
    findings += _told([certain("release", "verified", "public/", problems, well="follows from the measurements")], tell)
    about = _about() | {
        "release": release.spec.name,
        "key": "given" if key is not None else "not given",
        "ledger": "not compared; give --ledger" if events is None else "compared",
        "for": "the agency alone: computed from true counts",
    }
    if events is None and not any(universe.dataset for universe in release.universes):
        about["ledger"] = "none: the spec names no dataset"
    return Audit(f"Audit of the release {release.spec.name}", tuple(findings), about)


def _charged(url: str, release: PublishedRelease, key: MasterKey | None) -> list[Event]:
    """What a ledger was charged for the noise of this release: of its key, records, spine and privacy spec.

    Raises:
        InputError: there is no such ledger, or no key, by which alone the charges are known.
    """
    if key is None:
        raise InputError("--ledger: the release's charges can be found only with its key, and it is not given")
    runs = {
        RunFingerprint.of(
            key,
            input_fingerprint=release.manifest.input_fingerprints[universe.name],
            spine_fingerprint=release.spine.fingerprint(),
            privacy_fingerprint=universe.privacy_fingerprint(),
        ).text
        for universe in release.universes
    }
    with Ledger.open(url) as ledger:
        return [event for event in ledger.events() if event.run in runs]


def _about() -> dict[str, str]:
    here = software()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(here.packages.items()))
    return {"spinewise": here.version, "Python": here.python, "packages": packages}


def _told(findings: Iterable[Finding], tell: Tell) -> list[Finding]:
    kept = []
    for finding in findings:
        tell(finding)
        kept.append(finding)
    return kept
