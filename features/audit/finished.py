"""The audit of a finished release, or of an answer to a question, with its restricted/ folder; by both programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from auditor.answers.kept import Answer
from auditor.keys import NoKeyError
from auditor.ledger import Read, read_ledger
from auditor.noise import noises
from auditor.program import audit_with, left_out, secret_of
from auditor.reading.findings import FormError, Found
from auditor.release import Release
from features.audit.attack import attacks
from features.audit.exact_noise import normal_scores, overlap_p_value, spread_p_value, together_p_value, zeros_p_value
from features.audit.findings import ALPHA, Audit, Finding, FindingReporter, certain, collected, installed_versions
from pipeline.confidential.custody import KeySource, key_of_answer, key_of_release
from pipeline.errors import InputError
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.mechanisms import NOISES
from pipeline.published import PublishedRelease, open_finished
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.release.status import MADE_ELSEWHERE
from pipeline.runs.answers import verify_answer
from pipeline.runs.verify import verify_release
from pipeline.storage.durable import make_folder
from pipeline.storage.files import write_json
from postprocess.arrays import FloatArray

#: The heading of its findings.
GROUP = "independent"
#: Of guesses of which too few rest on noise of their own.
NOT_TESTED = "Whether it exceeds the promise is not tested: only {n} of the guesses are independent of each other."
#: Of the report on the attacks, below restricted/audit.
RECONSTRUCTION = "reconstruction.json"


def independent_findings(root: Path, key: Path | None, ledger: str | None) -> Iterator[Finding]:
    """What the second program finds, which shares no code with the first.

    Args:
        root: the release directory, with restricted/.
        key: file with the master key; default: the one that the run kept.
        ledger: the ledger that was charged; None to compare with none.

    Raises:
        InputError: the key or the ledger cannot be read.
    """
    try:
        secret, insecure = secret_of(root, key)
        read = None if ledger is None else _read(ledger)
    except (FormError, NoKeyError) as error:
        raise InputError(str(error)) from None
    try:
        for found in audit_with(root, secret, insecure, read):
            yield finding_of(found)
    except FormError as error:
        yield Finding(GROUP, "form", "release", passed=False, detail=str(error))


def attack_findings(root: Path, folder: Path) -> Iterator[Finding]:
    """Attack the release as an outsider would; writes what was achieved to `folder`, closed to others.

    Raises:
        InputError: true counts or measurements cannot be read.
    """
    try:
        attacked = attacks(root)
    except FormError as error:
        raise InputError(str(error)) from None
    make_folder(folder, private=True)
    write_json(folder / RECONSTRUCTION, [one.as_dict() for one in attacked], folder, private=True)
    for one in attacked:
        name = one.universe or "the release"
        made, guessed = one.reconstruction, one.membership
        shares = {"best linear estimate": made.linear, "published counts": made.published}
        said = ", ".join(f"{share:.0%} from the {by}" for by, share in shares.items() if share is not None)
        without = "" if made.without_noise is None else f", {made.without_noise:.0%} if there were no noise"
        yield Finding(
            "attack", "records reconstructed", name, passed=True, value=made.published, limit=1.0,
            detail=f"{said}{without}; {made.blind:.0%} by who knows only sizes and shares; {made.records:,} records",
        )  # fmt: skip
        yield Finding(
            "attack", "a person guessed", name, passed=guessed.passed, value=guessed.right, limit=guessed.bound,
            detail=f"{guessed.words} No attack on the stated noise exceeds {guessed.best:.0%}."
            + ("" if guessed.tested else f" {NOT_TESTED.format(n=guessed.apart)}"),
        )  # fmt: skip
        yield finding_of(one.trials, "attack", name)


def finding_of(found: Found, group: str = GROUP, about: str = "") -> Finding:
    """A finding of the second program as the first reports it."""
    subject = f"{about}: {found.subject}" if about else found.subject
    return Finding(group, found.check, subject, found.passed, found.value, found.limit, found.detail)


def _read(ledger: str) -> Read:
    """The ledger; the second program judges it, and reads it where it is on SQLite."""
    if "://" not in ledger or ledger.startswith("sqlite:///"):
        return read_ledger(ledger)
    with Ledger.open(ledger) as opened:
        return opened.id, [event.as_dict() for event in opened.events()]


def open_audited(folder: Path) -> PublishedRelease:
    """The finished release in `folder`, if how its noise was drawn can be audited.

    Raises:
        InputError: there is no finished release, or another program drew the noise; ReleaseError: it is damaged.
    """
    release = open_finished(folder, check_hashes=False)
    if release.manifest.status == MADE_ELSEWHERE:
        raise InputError(
            f"{release.run.root}: was estimated from measurements that were made elsewhere; how they were drawn cannot "
            "be audited"
        )
    return release


def noise_findings(root: Path) -> Iterator[Finding]:
    """Whether what was added has the distribution that the spec gives, and no two measurements share any.

    No key is needed. The second program says what the spec gives and what was added; with the key it draws noise again.

    Args:
        root: the release directory, with restricted/.
    """
    try:
        parts = [part for one in noises(Release(root)) for part in one.parts if part[-1].size]
    except FormError as error:
        yield certain("release", "noise found", "measurements", [str(error)])
        return
    scores, spreads, problems = dict[str, FloatArray](), [1.0], list[str]()
    for seed, (name, mechanism, scale, residuals) in enumerate(parts):
        spec = NOISES[mechanism](scale)
        own = scores[name] = normal_scores(residuals, spec, seed)
        spreads.append(min(1.0, 2 * min(spread_p_value(own), zeros_p_value(residuals, spec))))
        if spreads[-1] < ALPHA / len(parts):
            problems.append(
                f"{name}: the noise is not {spec} (p = {spreads[-1]:.2g}, mean of squares {(own**2).mean():.3g} where "
                "1 is right)"
            )
    limit, said = ALPHA / max(1, len(parts)), "; ".join(problems[:5])
    yield Finding("release", "noise found", "spread of each measurement", not problems, min(spreads), limit, said)
    p_value = together_p_value(list(scores.values())) if scores else 1.0
    yield Finding("release", "noise found", "distribution of all residuals", p_value >= ALPHA, p_value, ALPHA)
    p_value, pair = overlap_p_value(scores)
    shared = f"noise is shared: {pair}" if p_value < ALPHA else ""
    yield Finding("release", "streams apart", "every pair at every shift", p_value >= ALPHA, p_value, ALPHA, shared)


def audit_release(
    run: RunDirectory, source: KeySource, ledger: str | None, workers: int, report: FindingReporter
) -> Audit:
    """Audit a finished release with its restricted/ folder.

    Args:
        run: the release.
        source: of its key, where the run did not keep it. Without a key the noise is tested by its distribution alone.
        ledger: the ledger that was charged; None if none was.
        workers: number of processes.
        report: called with each finding.

    Raises:
        InputError: there is no finished release, its true counts were not kept, or the key is a different one.
    """
    release = open_audited(run.root)
    for universe in release.universes:
        if reason := universe.source.refusal("audit"):
            raise InputError(f"{run.root}: {reason}")
    if release.spec.update is not None:
        names = ", ".join(added.name for added in release.spec.update.answers)
        and_answers = f" and the answers ({names}), each" if names else ","
        raise InputError(
            f"{run.root}: is a version of noise that was drawn before: audit the release that it replaces"
            f"{and_answers} in the directory in which it was made, and verify this version"
        )
    has_key = _has_key("release", run, source, ledger)
    if has_key:
        key_of_release(run, source)
    if ledger is not None:
        with Ledger.open(ledger, state=load_settings().state):
            pass  # there is one
    findings = collected(
        report,
        noise_findings(run.root),
        independent_findings(run.root, source.file, ledger),
        _verified("release", lambda: verify_release(run, workers, Silent())),
    )
    about = _about({"release": release.spec.name}, run, has_key, ledger)
    if ledger is None and not any(universe.dataset for universe in release.universes):
        about["ledger"] = "none: the spec names no dataset"
    title = f"Audit of the release {release.spec.name}"
    return Audit(title, findings, about, release.spec.report.language)


def audit_answer(run: RunDirectory, source: KeySource, ledger: str | None, report: FindingReporter) -> Audit:
    """Audit an answer with its restricted/ folder, by the second program, and verify it.

    Args:
        run: the answer.
        source: of its key, where the answer did not keep it. Without one the noise is tested by its distribution alone.
        ledger: the ledger that was charged; None to compare with none.
        report: called with each finding.

    Raises:
        InputError: its true counts were not kept, or the key is a different one.
    """
    manifest = read_answer(run)
    has_key = _has_key("answer", run, source, ledger)
    try:
        Answer(run.root)
    except FormError as error:
        raise InputError(str(error)) from None
    if has_key:
        key_of_answer(run, source)
    found = independent_findings(run.root, source.file, ledger)
    findings = collected(report, found, _verified("answer", lambda: verify_answer(run)))
    about = _about({"answer": manifest.answer, "question": manifest.question}, run, has_key, ledger)
    return Audit(f"Audit of the answer {manifest.answer}", findings, about)


def _verified(what: str, problems: Callable[[], Sequence[str]]) -> Iterator[Finding]:
    """Whether what is published follows from what was drawn."""
    yield certain(what, "verified", "public/", problems(), well="follows from the measurements")


def _has_key(what: str, run: RunDirectory, source: KeySource, ledger: str | None) -> bool:
    """Whether there is a key; InputError without true counts, and where the charges in a ledger need a key."""
    if not run.restricted.is_dir():
        raise InputError(f"{run.root}: has no restricted/ folder; without the true counts there is nothing to audit")
    has_key = source != KeySource() or run.key.exists()
    if ledger is not None and not has_key:
        raise InputError(f"--ledger: the {what}'s charges can be found only with its key, which is not given")
    return has_key


def _about(named: Mapping[str, str], run: RunDirectory, has_key: bool, ledger: str | None) -> dict[str, str]:
    """What was audited, and by what."""
    return {
        **installed_versions(),
        **named,
        "key": "given" if has_key else "not given",
        "ledger": "not compared; give --ledger" if ledger is None else "compared",
        **left_out(run.root, key=has_key, ledger=ledger is not None),
        "for": "the agency alone: computed from true counts",
    }
