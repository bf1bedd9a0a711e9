"""Faults in single functions, each a text in place of another, and the test that must find it; see `mutants`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import CodeType
from typing import Any

from releases.mutant import Mutant, Patch, Plant, mutant


def text(place: str, old: str, new: str) -> Plant:
    """Another text in a function, `module:qualified name`, whoever has imported it already."""

    def plant(patch: Patch) -> None:
        module = import_module(place.partition(":")[0])
        found: Any = module
        for name in place.partition(":")[2].split("."):
            found = inspect.getattr_static(found, name)
        for inner in ("fget", "func", "__func__", "__wrapped__"):  # of a property, a cached one, a method, a cache
            found = getattr(found, inner, found)
        source, own = inspect.getsource(module), inspect.getsource(found)
        assert own.count(old) == 1, f"{old!r} stands {own.count(old)} times in {place}"
        changed = compile(source.replace(own, own.replace(old, new)), str(module.__file__), "exec")
        (code,) = (one for one in _codes(changed) if one.co_qualname == found.__qualname__)
        patch.setattr(found, "__code__", code)

    return plant


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


#: Coins of permute-and-flip with twice the epsilon.
DOUBLED_COINS = text(
    "pipeline.privacy.noise.choices:PermuteAndFlip.draw", "words = ", "losses = 2 * losses\n        words = "
)


def _found(name: str, place: str, old: str, new: str, test: str) -> Mutant:
    return replace(mutant(name, "t", plant=text(place, old, new)), test=test)


_YEARS, _SERIES, _LEDGER = "features/years/", "features.years.", "pipeline.privacy.ledger."
_REACH = f"{_YEARS}test_design.py::test_reach_is_that_of_all_pairs[2-2-change-one]"
_LONG = f"{_YEARS}test_design.py::test_honest_terms_of_long_series_are_confirmed[5-5-add-remove]"
_MIXED = f"{_YEARS}test_records.py::test_each_period_stands_alone_and_the_mixed_numbers_follow"
_CHAIN = f"{_YEARS}test_releases.py::"
_FEW = f"{_YEARS}test_records.py::test_a_series_of_few_records_a_person"
_KNOWN = f"{_LEDGER}dataset:is_known"
_CHARGE = "pipeline/privacy/ledger/test_charge.py::"
_TERMS = "features/marginals/test_chosen.py::test_statement_ledger_and_declared_budget_agree"
_TOO_SMALL = "features/marginals/test_chosen.py::test_too_small_a_budget_is_refused_before_anything_is_drawn"
_CHOICE, _CHOSEN = "features.marginals.choice:", "features.marginals.confidential:"
_PLACE = "pipeline/runs/test_positive.py::test_what_is_drawn_has_the_noise_of_its_place_among_all_answers"
_OWN, _POSITIVE = "pipeline.model.series:SeriesPeriod.own", "pipeline.confidential.measure:"
_CUT = "features/cumulative/test_released.py::"
_SETTINGS, _TRUST = "pipeline.execution.settings:", "pipeline.execution.settings:_check_trust"
_SET = "pipeline/execution/test_settings.py::"
_EACH = f"{_SET}test_each_setting_of_a_folder_untrusted_and_trusted"
_DEMAND = f"{_SET}test_a_requirement_holds_whoever_makes_it"
_FOLDERS = "[Path.cwd().resolve(), path.parent.resolve(), path.resolve().parent]"

TESTED: tuple[Mutant, ...] = (
    # Series
    _found("a distance of histories 9/10 of what it is", f"{_SERIES}series:found",
           "Fraction(design.reach.value)", "Fraction(design.reach.value) * 9 / 10", _LONG),
    _found("a distance of histories that is halved where people are added, too", f"{_SERIES}series:found",
           "/ MOVED[design.neighbours]", "/ 2", _LONG),
    _found("two histories never share an answer", f"{_SERIES}design:_cases", "= 2 * signs", "= 0 * signs", _REACH),
    _found("what two histories share has no sign", f"{_SERIES}design:_cases", "[-1] * second", "[1] * second", _REACH),
    _found("who has more records than are stated loses no more", f"{_SERIES}series:independent_terms",
           "Loss(Fraction(k, most)", "Loss(min(Fraction(1), Fraction(k, most))",
           f"{_YEARS}test_records.py::test_what_people_lose_is_that_of_all_pairs_of_histories[2-change-one-2]"),
    _found("96 for 128 in the bound of long series", f"{_SERIES}design:bound", "dominant, 128", "dominant, 96",
           f"{_YEARS}test_design.py::test_independent_noise_costs_the_sum_whatever_the_spells"),
    _found("earlier periods are not mixed in", f"{_SERIES}confidential:CarriedPeriods.answers",
           "total += weight *", "total += 0 *", _MIXED),
    _found("the variance of a period is that of what it drew itself", f"{_SERIES}series:counts_variance",
           "in solved.values()", "in [solved[number]]",
           f"{_YEARS}test_records.py::test_unmixed_noise_has_the_stated_covariance[False]"),
    _found("a series of several records a period", f"{_SERIES}chain:refuse_untried",
           "universe.unit.records > 1", "False", f"{_CHAIN}test_a_spec_that_does_not_fit_is_refused"),
    _found("a later period has noise for the whole budget", "pipeline.model.universe:Universe.unit_budget",
           "self.series is None", "self.series is None or self.series.number", _MIXED),
    _found("a series that is opened without a charge", f"{_LEDGER}charges:Charge.due",
           "self.series is None or self.series.number == 0", "self.series is None",
           f"{_CHARGE}test_the_whole_series_is_charged_when_it_is_opened"),
    _found("a period is drawn twice", _KNOWN, "before.run == run and ", "",
           f"{_CHARGE}test_what_is_no_next_period_is_refused_before_anything_is_drawn"),
    _found("a period is drawn again after another release", _KNOWN,
           ' and stated(before)["predecessor"] == use.predecessor', "",
           f"{_CHARGE}test_a_period_after_another_release_is_another"),
    _found("a period by another strategy", _KNOWN, '["strategy"] != use.strategy', '["strategy"] == ""',
           f"{_CHARGE}test_what_is_no_next_period_is_refused_before_anything_is_drawn"),
    # Pairs that are chosen
    _found("noise on the tables of attributes where somebody is", f"{_CHOSEN}_drawn",
           "0, len(table))", "0, len(table)) * (table > 0)",
           "features/marginals/test_chosen.py::"
           "test_the_noise_on_tables_of_attributes_is_the_same_whatever_the_records"),
    _found("the best pair, without noise", f"{_CHOSEN}chosen_pairs",
           "mechanism.draw(stream, losses, len(chosen))[0]", "losses[0].argmin()",
           "features/marginals/test_chosen.py::test_private_choices_have_the_probabilities_of_the_mechanism"),
    _found("pairs are drawn before they are charged", f"{_CHOSEN}answered", "    with charged_for",
           "    _drawn(work, key, fingerprint, tables)\n    with charged_for", _TOO_SMALL),
    _found("nothing is kept for what is measured after a choice", f"{_CHOSEN}charge_of",
           "later=terms.rest", "later=Fraction(0)", _TOO_SMALL),
    _found("a choice costs what it costs one of a person's records", f"{_CHOICE}ChoiceTerms.cost_of_choice",
           " * self.records**2", "", _TERMS),
    _found("all is left after a choice", f"{_CHOICE}ChoiceTerms.rest", " - self.cost", "", _TERMS),
    _found("the tables of all attributes cost what one costs", f"{_CHOICE}ChoiceTerms.cost",
           "len(self.domain.names) * ", "", _TERMS),
    _found("each choice has the budget of all", f"{_CHOICE}ChoiceTerms.epsilon", " / self.rounds", "", _TERMS),
    _found("pairs are chosen as if a person had one record", "features.marginals.division:_terms",
           "per_person = records if", "per_person = 1 if",
           "features/marginals/test_spec.py::test_what_a_choice_leaves_to_the_cliques_is_by_the_records_of_a_person"),
    _found("one number for all amounts of a record", "features.marginals.records:drawn_numbers",
           "np.array(attribute)", "np.array(0)",
           "features/marginals/test_spec.py::"
           "test_every_number_of_a_bin_has_the_same_chance_whatever_else_a_record_has"),
    # What is drawn where the area above is positive; running sums; questions
    _found("nothing is drawn below a single person", "postprocess.positive:PositivePlaces.of", "data > 0", "data > 1",
           "postprocess/test_marginal.py::test_the_answers_that_are_positive_in_a_parent_are_drawn_of_its_children"),
    _found("running sums that end before the value", "features.cumulative.cumulated:Cumulated.cut",
           "groups[self.axis] > value", "groups[self.axis] >= value", f"{_CUT}test_numbers_are_those_up_to_each_value"),
    _found("running sums of groups in no order", "features.cumulative.cumulated:_disorder",
           "np.diff(group) < 0", "np.diff(group) < -len(labels)",
           f"{_CUT}test_what_has_no_order_is_refused_in_one_sentence"),
    _found("an answer is drawn again whatever its run was charged for", "pipeline.confidential.charge:check_charged",
           "events and same_groups(events, charge.due)", "events",
           "features/questions/test_answering.py::"
           "test_an_answer_of_other_noise_than_was_charged_is_not_drawn_again"),
    # What somebody planted who was to be found by reading
    _found("equal records of a unit are numbered from those of the unit before", "pipeline.privacy.units:kept_records",
           "seen: Counter[tuple[int, ...]] = Counter()", 'seen = locals().get("seen", Counter())',
           "pipeline/privacy/test_units.py::test_equal_records_of_another_unit_decide_nothing"),
    _found("a reach of four digits costs what a reach of one does", f"{_LEDGER}events:Moved.stated",
           "if number != 1}", "if 1 < number < 1000}",
           f"{_CHARGE}test_what_a_change_moves_is_read_back_whatever_its_size[1000]"),
    _found("what cannot be is told with its counts", "pipeline.confidential.refusals:shielded",
           "    except SpinewiseError as error:\n",
           '    except SpinewiseError as error:\n        if "fit" in str(error):\n            raise\n',
           "pipeline/confidential/test_measure.py::test_the_error_that_is_raised_says_nothing[error2-2]"),
    # What a folder may set
    _found("only the list of what needs trust is refused, and a setting is missing there", _TRUST,
           "if name not in (*HARMLESS, *REQUIREMENTS)]", 'if name in NEEDS_TRUST and name != "state"]', _EACH),
    _found("one trusted folder of several suffices", _TRUST, "if folder not in trusted]", "if not trusted]", _EACH),
    _found("where a link leads is all that is looked at", _TRUST, _FOLDERS, "[path.resolve().parent]", _EACH),
    _found("a link is followed to a folder that is not trusted", _TRUST,
           _FOLDERS, "[Path.cwd().resolve(), path.parent.resolve()]",
           f"{_SET}test_a_link_from_a_trusted_folder_to_another_is_not_followed"),
    _found("what is below a trusted folder is trusted", _TRUST, "if folder not in trusted]",
           "if not any(folder.is_relative_to(one) for one in trusted)]", _EACH),
    _found("a folder trusts itself", _TRUST, 'if "trust" in project.content:', "if False:", _EACH),
    _found("a requirement is overridden", f"{_SETTINGS}load_settings",
           "if _demanded(name, places) is not None}", "if False}", _DEMAND),
    _found("the user's requirement is not asked for", f"{_SETTINGS}load_settings",
           "_demanded(name, places) is", "_demanded(name, places[:-1]) is", _DEMAND),
    _found("a relative folder is trusted", f"{_SETTINGS}_trusted", "if not folder.is_absolute():", "if False:",
           f"{_SET}test_trust_is_of_a_folder_and_not_of_wherever_one_is"),
    _found("a relative SPINEWISE_CONFIG is trusted", _TRUST, " and path.is_absolute():", ":",
           f"{_SET}test_a_file_that_is_named_by_a_path_from_here_is_this_folders"),
    _found("the user's file names a key of the current folder", f"{_SETTINGS}load_settings", "_check_own(user)", "pass",
           f"{_SET}test_the_users_own_file_names_keys_and_budgets_by_whole_paths"),
    _found("the file is read a second time after the check", f"{_SETTINGS}load_settings", "|= place.content\n",
           "|= place.content if place.file is None else _content(place.file)\n", f"{_SET}test_each_file_is_read_once"),
)  # fmt: skip
#: Of which the test makes releases.
TESTED_SLOWLY: tuple[Mutant, ...] = (
    _found("any note of the ledger stands for the charge of the run", "pipeline.confidential.charge:refuse_uncharged",
           "(note is not None and note.ledger != ledger.id)", "note is not None",
           "pipeline/confidential/test_promises.py::test_a_run_that_was_refused_is_not_rerun"),
    _found("which report counts follows from public names", "features.local.confidential:RandomisedReports.tabulate",
           'key.keyed_hash(f"one report of each respondent/{universe.name}", b"")',
           "hashlib.sha256(universe.name.encode()).hexdigest()",
           "features/local/test_reports.py::test_which_report_counts_is_drawn_by_the_key_of_the_run"),
    _found("a series that follows a broken chain", f"{_SERIES}chain:predecessors",
           "due is not None and one.hash != due", "False", f"{_CHAIN}test_a_broken_chain_is_refused"),
    _found("a series is mixed with true counts that were replaced", f"{_SERIES}confidential:_check_truth",
           'counts != due["true counts"]', "False", f"{_CHAIN}test_true_counts_that_were_replaced_are_noticed"),
    _found("a series is mixed with what another run measured", f"{_SERIES}confidential:_check_truth",
           'measured != due["measurements"]', "False", f"{_CHAIN}test_a_restricted_part_of_another_run_is_noticed"),
    _found("streams that do not depend on the period", _OWN, "self.number", "0", _FEW),
    _found("streams that do not depend on the release before", _OWN, "self.predecessor", '"first"', _FEW),
    _found("a series is charged what one period costs", f"{_LEDGER}charges:charge_for",
           "universe.series.terms.distance", "1", _FEW),
    _found("places in lots that all begin at the first area", f"{_POSITIVE}_drawn",
           "(first + part.rows)", "part.rows", "pipeline/runs/test_positive.py::test_in_lots_the_same_is_drawn"),
    _found("noise by the rank of a place", f"{_POSITIVE}_drawn",
           "(first + part.rows) * query.size + part.answers", "np.arange(len(part.rows))", _PLACE),
    _found("noise of another query's stream", f"{_POSITIVE}measure_positive",
           "(context, level, query.name)", '(context, level, "total")', _PLACE),
    _found("single persons are not counted where the area above is positive", f"{_POSITIVE}true_answers",
           "np.where(there,", "np.where(there & (sums[at] > 1),", _PLACE),
    _found("what is drawn where the area above is positive is not charged",
           "pipeline.model.universe:Universe.uses", "in self.draws()",
           "in [one for one in self.draws() if not one.where_positive]",
           "pipeline/runs/test_positive.py::test_the_promise_and_the_charge_are_those_of_all_answers"),
)  # fmt: skip
