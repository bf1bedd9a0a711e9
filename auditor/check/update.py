"""Of a version that replaces another: that nothing of that one is lost, and every answer is counted.

A version without new answers corrects texts for readers: nothing else in it is another than before.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from auditor.accounting import cost_of
from auditor.check.published import PublicRelease
from auditor.files import header_of_answers, header_problems, read_measured
from auditor.form import Universe, read_form
from auditor.mechanisms import law_of
from auditor.reading.files import Files, file_name, sha256
from auditor.reading.findings import Check, FormError, exact, understood
from auditor.reading.spec import read_json
from auditor.reading.values import IntArray, Stated, exact_sum, zeros

#: Folders of a universe with what is measured or known.
_KINDS: Final = ("measurements", "invariants", "constraints", "selected")
#: Keys of [report] that are texts; labels are texts too. No number depends on either.
_TEXTS: Final = frozenset(
    {
        *("title", "publisher", "language", "reference_date", "publication_date", "version", "next_release"),
        *("contact", "licence", "citation", "software_url", "notes", "definitions"),
    }
)
#: Of a question, a condition that lists what is counted; there are others.
_CONDITION: Final = re.compile(r"(?:^| and )(\w+) (?:=|in) (.+?)(?= and | having |$)")
#: Files that show such texts, or say what a version replaces; and folders of them.
_DESCRIBING: Final = ("report.html", "datapackage.json", "changes.json")
_FOLDERS: Final = ("report/", "replaced/")


def check_update(published: PublicRelease) -> None:
    """Check what a version replaces, its answers, and the budget of both together; nothing of a first release."""
    files, manifest = published.files, published.manifest
    findings = files.findings
    with findings.noting_errors(), understood("public/manifest.json: its update"):
        if (update := manifest["spec"].get("update")) is None:
            return
        _check_replaced(files, manifest, str(update["replaces"]))
        if manifest["spec"]["privacy"]["framework"] == "local" and not update["answers"]:
            return  # each report has spent its own, and no answers are added
        main = read_form(manifest["spec"]).universes[0]
        for answer in update["answers"]:
            name = str(answer["name"])
            folder = published.places.public / "answers" / file_name("answer", name)
            check = findings.check(f"public/answers/{name}", "numbers that are not those of the answer")
            if _sha256(folder / "answer.json") != answer["sha256"]:
                check.fail(f"public/answers/{name}/answer.json is not the one that the spec states")
                continue
            stated = read_json(folder / "answer.json", f"public/answers/{name}/answer.json")
            _check_answer(published, folder, answer, stated, check)
            check = findings.check(f"public/answers/{name}", "statements that are not those of the answer")
            _check_words(answer, stated, manifest["spec"], main, check)
        total = main.budget + exact_sum(_cost(main, answer) for answer in update["answers"])
        if exact(said := manifest["privacy"][0]["budget"]) != total:
            findings.check("public/manifest.json", "budgets").fail(
                f"public/manifest.json: states the budget {said}; release and answers cost {total} together"
            )


def _sha256(path: Path) -> str:
    return sha256(path) if path.is_file() else ""


def _check_replaced(files: Files, manifest: Stated, replaces: str) -> None:
    """The files of the version before are those that its manifest lists, and its measurements are used unchanged."""
    folder, findings = files.folder / "replaced", files.findings
    check = findings.check("public/replaced", "files that are not those of the version before")
    if _sha256(folder / "manifest.json") != replaces:
        check.fail("public/replaced/manifest.json is not the manifest of the version that is replaced")
        return
    stated = read_json(folder / "manifest.json", "public/replaced/manifest.json")
    before = stated["files"]
    kind = "statements that are not those of the version before"
    _check_spec(manifest, stated, findings.check("public/manifest.json", kind))
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != "manifest.json" and _sha256(path) != before.get(name, {}).get("sha256"):
            check.fail(f"{files.name(path)} is not that of the version before")
    taken = findings.check("public", "measurements of the version before that are missing or changed")
    for name, entry in sorted(before.items()):
        if _is_taken_over(name) and manifest["files"].get(name, {}).get("sha256") != entry["sha256"]:
            taken.fail(f"public/{name} is not that of the version before")
    if not _further(manifest, stated):
        other = findings.check("public", "numbers that are not those of a version of which texts alone were corrected")
        for name in sorted(before.keys() | manifest["files"].keys()):
            described = name in _DESCRIBING or name.startswith(_FOLDERS)
            if not described and before.get(name) != manifest["files"].get(name):
                other.fail(f"public/{name} is not that of the version before")


def _further(manifest: Stated, before: Stated) -> bool:
    """Whether a version has more answers than the one before."""
    return len(manifest["spec"]["update"]["answers"]) > len(before["spec"].get("update", {}).get("answers", ()))


def _without_texts(spec: Stated) -> dict[str, Any]:
    """A public spec without what may be corrected."""

    def without_labels(section: Stated) -> dict[str, Any]:
        return {key: value for key, value in section.items() if key != "labels"}

    rest = {
        "report": {key: value for key, value in spec.get("report", {}).items() if key not in _TEXTS},
        "geography": without_labels(spec["geography"]),
        "schema": without_labels(spec["schema"]),
        "companions": [
            [name, {**companion, "schema": without_labels(companion["schema"])}]
            for name, companion in spec.get("companions", ())
        ],
    }
    return {**spec, **rest}


def _check_spec(manifest: Stated, before: Stated, check: Check) -> None:
    """Spec and receipts are those of the version before, with answers added at the end, or with corrected texts."""
    old, new = dict(before["spec"]), dict(manifest["spec"])
    earlier, update = old.pop("update", None) or {"version": 1, "answers": []}, new.pop("update")
    if not _further(manifest, before):
        old, new = _without_texts(old), _without_texts(new)
    if old != new:
        check.fail("public/manifest.json: its spec, without the answers, is not that of the version before")
    if update["version"] != earlier["version"] + 1:
        check.fail(f"public/manifest.json: it follows version {earlier['version']}")
    known = len(earlier["answers"])
    if update["answers"][:known] != earlier["answers"]:
        check.fail("public/manifest.json: its answers are not those of the version before and further ones")
    if manifest["receipts"] != before["receipts"]:
        check.fail("public/manifest.json: its receipts are not those of the version before")


def _is_taken_over(name: str) -> bool:
    folders = name.split("/")
    return name == "spine.parquet" or any(kind in _KINDS for kind in (folders[0], *folders[2:3]))


def _check_answer(published: PublicRelease, folder: Path, answer: Stated, stated: Stated, check: Check) -> None:
    """Its measurement has each of the numbers of the answer in a folder in its place."""
    name = str(answer["name"])
    if _sha256(folder / "measurements.csv") != stated["files"]["measurements.csv"]:
        check.fail(f"public/answers/{name}/measurements.csv was changed")
        return
    (part,) = stated["parts"]
    if (part["mechanism"], exact(part["scale"])) != (answer["mechanism"], exact(answer["scale"])):
        check.fail(f"public/answers/{name}: its noise is not the one that the spec states")
    level = next((one for one in published.levels if one.name == answer["level"]), None)
    if level is None:
        check.fail(f"public/answers/{name}: the spine has no level {str(answer['level'])!r}")
        return
    terms = {term: [label for label, _ in section["groups"]] for term, section in answer["by"]}
    path = published.places.answers("", "measurements", level.name, name)
    codes, numbers = read_measured(path)
    mechanism, scale = str(answer["mechanism"]), exact(answer["scale"])
    size = math.prod(map(len, terms.values()))
    required = header_of_answers(level.name, name, size, mechanism)
    for problem in header_problems(path, required, {str(scale): law_of(mechanism).variance(float(scale))}):
        check.fail(f"{published.files.name(path)}: {problem}")
    wanted = _numbers(folder / "measurements.csv", codes, terms, stated)
    if wanted is None:
        check.fail(f"public/answers/{name}: the spec tells other terms apart")
    elif numbers.shape != wanted.shape or sorted(codes) != sorted(level.texts):
        check.fail(f"{published.files.name(path)} has other numbers than the answer")
    else:
        said = published.files.name(path)
        check.add(numbers != wanted, lambda at: f"{said}: {codes[at[0]]!r} has not the answer's number")


def _numbers(path: Path, codes: list[str], terms: Mapping[str, list[str]], stated: Stated) -> IntArray | None:
    """The counts of an answer, `(n_geounits, size)`, the last term of the spec running fastest; None of other terms."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    level = [] if stated["place"] == "everywhere" else [str(stated["place"])]
    if rows and sorted(rows[0]) != sorted([*level, *terms, "count"]):
        return None
    places = {code: number for number, code in enumerate(codes)}
    groups = {labels: number for number, labels in enumerate(itertools.product(*terms.values()))}
    out = zeros((len(places), len(groups)))
    if len(rows) != out.size:
        raise FormError(f"public/answers: {path.name} has {len(rows)} rows; {out.size} are needed")
    for row in rows:
        place = 0 if stated["place"] == "everywhere" else places[row[str(stated["place"])]]
        try:
            out[place, groups[tuple(row[term] for term in terms)]] = int(row["count"])
        except OverflowError as error:
            raise FormError(f"public/answers: {path.name} has a count beyond 64 bits") from error
    return out


def _check_words(answer: Stated, stated: Stated, spec: Stated, main: Universe, check: Check) -> None:
    """Groups, conditions and cost in the spec are those of the answer, as far as nobody need read its question."""
    name, schema = str(answer["name"]), spec["schema"]
    if stated["question"] != answer["question"]:
        check.fail(f"public/answers/{name}: the spec states another question")
    attributes, recodes = dict(schema["attributes"]), dict(schema["recodes"])
    groups_of = {term: (term, {value: [value] for value in values}) for term, values in attributes.items()}
    groups_of |= {term: (section["attribute"], dict(section["groups"])) for term, section in recodes.items()}
    whole = " where " not in answer["question"]
    if answer["where"] and whole:
        check.fail(f"public/answers/{name}: the spec states a condition, and the question has none")
    for term, section in answer["by"]:
        of, groups = groups_of[term]
        told = {label: set(values) for label, values in section["groups"]}
        full = {label: set(values) for label, values in groups.items()}
        within = all(values and values <= full.get(label, set()) for label, values in told.items())
        if section["attribute"] != of or not within or (whole and told != full):
            check.fail(f"public/answers/{name}: the groups of {term!r} are not those of the schema")
    counted = {of: set(values) for of, values in answer["where"]}
    counted |= {section["attribute"]: _joined(section["groups"]) for _, section in answer["by"]}
    for term, listed in _CONDITION.findall(answer["question"].partition(" where ")[2]):
        of, groups = groups_of.get(term, (term, {}))
        labels = listed.split(", ")
        if groups.keys() >= {*labels}:  # else its condition is another's to read
            kept = _joined((label, groups[label]) for label in labels)
            if not counted.get(of, {*attributes[of]}) <= kept:
                check.fail(f"public/answers/{name}: the spec counts others than those with {term!r} {listed:.80}")
    charged = exact_sum(Fraction(one["cost"]) for one in stated["receipts"])
    if charged != (cost := _cost(main, answer)):
        check.fail(f"public/answers/{name}: its noise costs {cost}, its receipts state {charged}")


def _joined(groups: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    return {value for _, values in groups for value in values}


def _cost(main: Universe, answer: Stated) -> Fraction:
    """What the noise of an answer costs."""
    return cost_of((main.mechanism, exact(answer["scale"]), main.moved), zcdp=main.zcdp) * main.times(main.together)
