"""The audit of a release, or of an answer to a question, from end to end, as a function and as a program of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from auditor.answers.audit import BOUND_TO_KEY, FORM_ALONE, NOT_HERE, audit_answer, is_answer
from auditor.check.published import PublicRelease
from auditor.check.relations import check_relations, check_sums
from auditor.clique_redraw import clique_findings
from auditor.contents import BOUND_TO_KEY as RELEASE_BOUND_TO_KEY
from auditor.contents import KNOWN, content_findings
from auditor.keys import NoKeyError, commitment, key_found, keyed_hash, published_fingerprint, read_key
from auditor.ledger import Read, ledger_findings, read_ledger
from auditor.noise import choice_findings, exceedances, noises, redrawn
from auditor.reading.files import Files, Places, sha256
from auditor.reading.findings import FormError, Found, holds
from auditor.reading.spec import read_json
from auditor.release import Release
from auditor.statements import statement_findings


def truth_findings(release: Release) -> Iterator[Found]:
    """Whether the true counts add up and keep what limits the released ones; no number of them is told.

    What is said of them in public may be wrong, and is kept in the release all the same: it is told, and no failure.
    """
    truth = {
        one.name: {level.name: release.truth(one, level) for level in release.spine} for one in release.form.universes
    }
    checks: dict[str, Callable[[PublicRelease], None]] = {
        "restricted/histograms": check_sums,
        "invariants and clips": partial(check_relations, exact=True),
        _SAID: partial(check_relations, exact=False),
    }
    for subject, check in checks.items():
        files = Files(release.public)
        check(PublicRelease(files, release.places, release.manifest, release.form.public, release.spine, truth))
        found = holds("truth", subject, files.findings.told)
        yield replace(found, passed=found.passed or subject == _SAID)


_SAID: Final = "bounds and joins"
_MADE_ELSEWHERE = "estimated from measurements that were made elsewhere"
_TEST_STATUS = "NOT FOR RELEASE"


def audit(root: Path, key: Path | None = None, ledger: str | None = None) -> Iterator[Found]:
    """Everything that can be checked of a finished release, or of an answer to a question.

    Args:
        root: the release's or the answer's directory, with restricted/.
        key: file with the master key; default: the one that the run kept, if it did.
        ledger: the SQLite file of the ledger that was charged.

    Raises:
        FormError: the release cannot be understood.
        NoKeyError: the key file holds no key.
    """
    yield from audit_with(root, *secret_of(root, key), None if ledger is None else read_ledger(ledger))


def audit_with(root: Path, secret: bytes | None, insecure: bool, ledger: Read | None) -> Iterator[Found]:
    """The same with the key and the ledger themselves; None where there is none."""
    if is_answer(root):
        yield from audit_answer(root, secret, insecure, ledger)
        return
    release = Release(root)
    if release.manifest["status"] == _MADE_ELSEWHERE:
        raise FormError(f"{root}: its measurements were made elsewhere; how they were drawn cannot be audited")
    if "update" in release.manifest["spec"]:
        raise FormError(
            f"{root}: is a version of noise drawn before; audit the release that it replaces, and answers added to it"
        )
    if release.manifest["spec"]["privacy"]["framework"] == "local":
        raise FormError(f"{root}: is made from randomised reports; no noise was drawn that could be audited")
    yield from content_findings(release)
    yield from statement_findings(release)
    yield from truth_findings(release)
    if release.form.universes[0].series.number:
        yield holds("series", "the release before", _before_problems(release))
    if secret is not None:
        yield holds("key", "commitment and records", _key_problems(release, secret, insecure=insecure))
    yield holds("nothing restricted", "public/", _secret_problems(release, secret, insecure=insecure))
    stated, test = release.manifest["key_commitment"], insecure or _is_test(release)
    yield key_found(stated, secret, salt=release.salt, insecure=test)
    try:
        added = list(noises(release))
        yield exceedances([part[1:] for noise in added for part in noise.parts])
        yield from choice_findings(release)
        if secret is not None:
            yield from redrawn(release, secret, added)
        if any(due.where_positive for due in release.due):
            places = [f"{noise.name}: {problem}" for noise in added for problem in noise.problems]
            yield holds("answers drawn", "where the area above is positive in the release", places)
        yield from clique_findings(release, secret)
    except FormError as error:
        yield holds("noise", "measurements", [str(error)])
    yield from ledger_findings(release, secret, ledger)


def _is_test(release: Release) -> bool:
    return bool(release.manifest["status"].startswith(_TEST_STATUS))


def secret_of(root: Path, key: Path | None) -> tuple[bytes | None, bool]:
    """The master key, from the file given or the one that the run kept, and whether it is a public test key."""
    kept = root / "restricted" / "key"
    if key is None and not kept.is_file():
        return None, False
    return read_key(kept if key is None else key)


def _before_problems(release: Release) -> Iterator[str]:
    """Whether the release beside it is the one that it says it follows."""
    try:
        _ = release.before
    except FormError as error:
        yield str(error)


def _key_problems(release: Release, secret: bytes, *, insecure: bool) -> list[str]:
    problems = []
    if commitment(secret, release.salt) != release.manifest["key_commitment"]:
        problems.append("the key is not the one that the manifest is committed to")
    if insecure != _is_test(release):
        problems.append(
            f"the status is {release.manifest['status']!r}, the key is {'public' if insecure else 'secret'}"
        )
    if release.manifest["input_fingerprints"] != {
        name: published_fingerprint(secret, release.salt, name, fingerprint)
        for name, fingerprint in release.fingerprints(secret).items()
    }:
        problems.append("the fingerprints are not those of the true counts")
    return problems


def _secret_problems(release: Release, secret: bytes | None, *, insecure: bool) -> Iterator[str]:
    """Whether the key, or a plain hash of what is confidential, is in a public file."""
    secrets = [("a plain hash of the confidential counts", digest) for digest in release.digests.values()]
    paths = [path for path in sorted(release.public.rglob("*")) if path.is_file()]
    # By chance a level of a small release equals the truth, byte for byte; its hash in the manifest is then its own.
    published = {sha256(path) for path in paths}
    for universe in release.form.universes:
        for level in release.form.levels:
            stored = sha256(release.places.of(universe.name, "histograms", level, secret=True))
            if stored not in published:
                secrets.append(("a plain hash of a restricted file", bytes.fromhex(stored)))
    if secret is not None and not insecure:
        secrets.append(("the master key", secret))
    if secret is not None and release.salt:
        secrets.append(("the key's commitment without a salt", bytes.fromhex(commitment(secret))))
        own = [keyed_hash(secret, f"input/{name}", digest) for name, digest in release.digests.items()]
        for fingerprint in {*own, *release.fingerprints(secret).values()}:
            secrets.append(("the records' fingerprint without a salt", bytes.fromhex(fingerprint)))
    for path in paths:
        content = path.read_bytes()
        lower = content.lower()
        for what, raw in secrets:
            if raw in content or raw.hex().encode() in lower:
                yield f"public/{path.relative_to(release.public).as_posix()} holds {what}"


#: Files, and numbers in them, that follow from others in a way that is not gone here.
_UNJUDGED: Final = (
    "intervals", "estimates/", "draws/", "report.html", "report/", "datapackage.json", "changes.json",
)  # fmt: skip


def left_out(root: Path, *, key: bool, ledger: bool) -> dict[str, str]:
    """Files, and fields of the manifest, that this program does not compute again, by what is done with them.

    Args:
        root: the release's or the answer's directory.
        key, ledger: whether it was given them.
    """
    answer = is_answer(root)
    unknown = [*NOT_HERE]
    if not answer:
        unknown = [*sorted(read_json(Places(root).manifest, "manifest.json").keys() - KNOWN), *_UNJUDGED]
    alone = [*FORM_ALONE, "question (its words)"] if answer else ["software", "privacy, accounts (words but numbers)"]
    if not key:
        alone += BOUND_TO_KEY if answer else RELEASE_BOUND_TO_KEY
    if not ledger:
        alone.append("receipts (ledger, number, hash)")
    return {"computed by spinewise verify alone": ", ".join(unknown), "compared in form alone": ", ".join(alone)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit status: 0 if everything is as it should be, 1 if not, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -P -m auditor", description=__doc__)
    parser.add_argument("release", type=Path, help="directory of a release or an answer, with restricted/")
    parser.add_argument("--key-file", type=Path, help="the master key, if the run did not keep it")
    parser.add_argument("--ledger", help="SQLite file of the ledger")
    chosen = parser.parse_args(arguments)
    passed = True
    try:
        for found in audit(chosen.release, chosen.key_file, chosen.ledger):
            passed &= found.passed
            sys.stdout.write(
                f"{'passed' if found.passed else 'FAILED'}  {found.check}: {found.subject}  {found.detail}\n"
            )
        secret = secret_of(chosen.release, chosen.key_file)[0]
        for what, fields in left_out(chosen.release, key=secret is not None, ledger=chosen.ledger is not None).items():
            sys.stdout.write(f"{what}: {fields}\n")
    except (FormError, NoKeyError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if passed else 1
