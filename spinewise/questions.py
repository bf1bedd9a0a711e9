"""Questions on the records of a dataset, asked from Python under the same ledger.

This is of the feature `questions`; without its folder, `spinewise` has none of these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from features.questions.answering import answer_question  # type: ignore[import-not-found, unused-ignore]
from features.questions.explaining import Explanation, explain_question  # type: ignore[import-not-found, unused-ignore]
from features.questions.request import QuestionRequest, check_question  # type: ignore[import-not-found, unused-ignore]
from pipeline.confidential.custody import KeySource, configured_source
from pipeline.errors import InputError
from pipeline.execution.settings import load_settings
from pipeline.questions.text import Asked, Condition, Word, parse
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from spinewise.answers import Answer
from spinewise.runs import named_ledger


@dataclass(frozen=True)
class Dataset:
    """The records of a spec, as far as questions may be asked of them; nothing is read before an answer is released.

    Attributes:
        spec: with the dataset's name, its areas and the domains of its attributes.
        ledger: that is charged; by default that of the settings.
        data: records instead of the spec's.
        asked: the conditions and groups so far.
    """

    spec: ReleaseSpec
    ledger: str | None = None
    data: Path | None = None
    asked: Asked = field(default_factory=lambda: Asked("count"))

    def where(self, *conditions: str, **values: str | Sequence[str]) -> Dataset:
        """Only records for which all conditions hold: `where("wages >= 20000", age="65+", race=["white", "black"])`.

        Raises:
            InputError: a condition is none.
        """
        stated = tuple(one for text in conditions for one in parse(f"count where {text}").where)
        for name, chosen in values.items():
            several = (chosen,) if isinstance(chosen, str) else tuple(chosen)
            if not several or not all(isinstance(value, str) and value.strip() for value in several):
                raise InputError(f"where: {name}: found {chosen!r}; a value, or a list of them, is needed as text")
            if any('"' in value and "'" in value for value in several):
                raise InputError(f"where: {name}: found a value with both kinds of quotes, which no question can name")
            operator = "=" if len(several) == 1 else "in"
            stated += (Condition(Word(name), operator, tuple(Word(value) for value in several)),)
        return replace(self, asked=replace(self.asked, where=self.asked.where + stated))

    def by(self, *names: str) -> Dataset:
        """One number for each of these: a level, attributes, recodes."""
        return replace(self, asked=replace(self.asked, by=(*self.asked.by, *map(Word, names))))

    def count(self, *, at_least: int | None = None) -> Question:
        """How many records; `at_least`: only groups with a noisy count of so many."""
        least = None if at_least is None else parse(f"count having count >= {at_least}").least
        return Question(self, str(replace(self.asked, statistic="count", least=least)))

    def count_units(self, *, at_least: int | None = None) -> Question:
        """How many units, such as patients, have a record there; `by("records_per_unit")`: by how many they have."""
        least = None if at_least is None else parse(f"count having count >= {at_least}").least
        return Question(self, str(replace(self.asked, statistic="count units", least=least)))

    def sum(self, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None) -> Question:
        """The sum of an amount; `between` and `unit`, exact text, where the spec does not declare its domain."""
        return Question(self, str(replace(self.asked, statistic="sum", amount=Word(amount))), between, unit)

    def mean(self, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None) -> Question:
        """The mean of an amount; as `sum`."""
        return Question(self, str(replace(self.asked, statistic="mean", amount=Word(amount))), between, unit)

    def median(self, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None) -> Question:
        """The median of an amount; as `sum`."""
        return Question(self, str(replace(self.asked, statistic="median", amount=Word(amount))), between, unit)

    def quantile(
        self, fraction: str, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None
    ) -> Question:
        """A quantile of an amount, its fraction as exact text such as "1/4" or "0.25"; otherwise as `sum`."""
        asked = parse(f"quantile {fraction} x")
        of = replace(self.asked, statistic=asked.statistic, number=asked.number, amount=Word(amount))
        return Question(self, str(of), between, unit)

    def max(self, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None) -> Question:
        """Nearly the largest amount: a step that few records are above, how few says `explain`; as `sum`."""
        return Question(self, str(replace(self.asked, statistic="max", amount=Word(amount))), between, unit)

    def min(self, amount: str, *, between: tuple[str, str] | None = None, unit: str | None = None) -> Question:
        """Nearly the smallest amount: a step that few records are below; as `max`."""
        return Question(self, str(replace(self.asked, statistic="min", amount=Word(amount))), between, unit)

    def clip(self, amount: str, among: Sequence[str], *, above: str | None = None) -> Question:
        """Which of the listed ends, rising exact texts, to clip an amount at: the least that few enough are above.

        Args:
            amount: a column of the spec's questions.
            among: the ends.
            above: how many records may be above, a share such as "1/100" or a number; by default as for `max`.

        Raises:
            InputError: the ends are not rising, or no share or number is stated.
        """
        if self.asked.by:
            raise InputError("clip: found groups; a clip is one for all records")
        stated = parse(f"clip x among {', '.join(among)}{'' if above is None else f' above {above}'}")
        return Question(self, str(replace(stated, amount=Word(amount), where=self.asked.where)))

    def most_common(self, attribute: str, number: int = 1) -> Question:
        """The most common values of an attribute or a recode, by noisy counts."""
        asked = parse(f"most common {number} x")
        return Question(
            self, str(replace(self.asked, statistic="most common", number=asked.number, amount=Word(attribute)))
        )

    def ask(self, question: str) -> Question:
        """A question by its text, such as "count by tract, sex where age >= 65"."""
        return Question(self, str(parse(question)))

    def __repr__(self) -> str:
        return f"Dataset {self.spec.privacy.dataset or 'without a ledger'} of {self.spec.source}; {self.asked}"


@dataclass(frozen=True)
class Question:
    """A question that can be explained for nothing, and released at a cost.

    Attributes:
        text: canonical.
    """

    dataset: Dataset
    text: str
    between: tuple[str, str] | None = None
    unit: str | None = None

    def explain(
        self, *, rho: str | None = None, epsilon: str | None = None, release: Path | str | None = None
    ) -> Explanation:
        """What it would cost, and how near the answer would be; reads no record and spends nothing.

        Args:
            rho: the budget, exact text; of framework zcdp.
            epsilon: the same of framework pure.
            release: a finished release of the spec that may answer already.

        Raises:
            InputError: the question cannot be asked.
        """
        with named_ledger(self.dataset.ledger):
            checked = check_question(self._request(rho, epsilon))
            return explain_question(checked, None if release is None else Path(release))

    def release(
        self,
        *,
        rho: str | None = None,
        epsilon: str | None = None,
        out: Path | str = "answers",
        name: str | None = None,
        key_file: Path | str | None = None,
    ) -> Answer:
        """Charge the ledger, and answer; the same again is not charged again.

        Args:
            rho, epsilon: the budget, as in `explain`.
            out: folder of answers.
            name: of the answer; by default made from the question and its budget.
            key_file: the master key; by default that of the settings, or the answer's own.

        Raises:
            BudgetRefusedError: the dataset has not enough left.
            InputError: the question cannot be asked, or there is no ledger.
        """
        with named_ledger(self.dataset.ledger):
            given = None if key_file is None else KeySource(Path(key_file))
            source = given or configured_source(self.dataset.spec, load_settings())
            request = replace(self._request(rho, epsilon), out=Path(out), name=name, key=source)
            return Answer(answer_question(check_question(request)))

    def _request(self, rho: str | None, epsilon: str | None) -> QuestionRequest:
        dataset = self.dataset
        return QuestionRequest(dataset.spec, self.text, rho, epsilon, self.between, self.unit, data=dataset.data)


def open_dataset(spec: Path | str, *, ledger: str | Path | None = None, data: Path | str | None = None) -> Dataset:
    """The records of a spec, to be asked questions under the ledger of its dataset; no record is read here.

    Args:
        spec: the spec file.
        ledger: a file or URL; by default that of the settings.
        data: records instead of the spec's.

    Raises:
        SpecError: the spec cannot be read, or something in it is wrong.

    Example:
        >>> data = open_dataset("release.toml")                                              # doctest: +SKIP
        >>> data.where("age >= 65").by("tract", "sex").count().explain(rho="1/200")          # doctest: +SKIP
    """
    return Dataset(load_spec(spec), None if ledger is None else str(ledger), None if data is None else Path(data))
