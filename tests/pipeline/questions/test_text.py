"""The text of a question: what is read, and that everything else is refused by one sentence with its place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.questions.text import LONGEST, Asked, QuestionError, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("count", "count"),
        ("  count by tract ,sex  where age>=65 ", "count by tract, sex where age >= 65"),
        (
            "count where race in 'two or more', asian and sex!=f",
            'count where race in "two or more", asian and sex != f',
        ),
        ("""count where "by" = 'a "b"'""", """count where "by" = 'a "b"'"""),
        ("quantile 0.25 wages", "quantile 1/4 wages"),
        ("max wages by max where min=clip", "max wages by max where min = clip"),
        ("min clip", "min clip"),
        ("clip wages among 2e4,40000 above .01 where sex=f", "clip wages among 20000, 40000 above 1/100 where sex = f"),
        ("clip above among -1/2, 5 above 30", "clip above among -1/2, 5 above 30"),
        ("quantile 5e-1 wages", "median wages"),
        ("most common race by county", "most common 1 race by county"),
        ('most common 3 "3" where sex=f', "most common 3 3 where sex = f"),
        ("count by tract having count>=050", "count by tract having count >= 50"),
        ("count  units by tract having count>=5", "count units by tract having count >= 5"),
        ('count by "median", "having"', 'count by "median", "having"'),
    ],
)
def test_a_question_has_one_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: found the end; a question begins with count, count units, sum, mean, "),
        ("count tract", "character 7: found 'tract'; allowed here are"),
        ("quantile 1/2000 wages", "a denominator of at most 1000"),
        ("clip wages by county", "character 12: found 'by'; among is needed here"),
        ("clip wages among 20000", "from 2 to 100 ends can be chosen among"),
        ("clip wages among 20,000, 40,000", "found '000'; the ends to choose among are rising numbers"),
        ("clip wages among 1, 1e41 above 9", "found '1e41'; an end to choose among is a decimal number from -1000"),
        ("clip wages among 10000/3, 10000", "found '10000/3'; an end to choose among"),
        ("clip wages among 1, 2 above 1/2000", "a share of the records below 1"),
        ("clip wages among 1, 2 by county", "found 'by'; allowed here are a comma in a list"),
        ("most race", "character 1: found 'most'; \"common\" must follow"),
        ("most common 0 race", "from 1 to 1,000 of the most common"),
        ("count having count > 5", "character 20: found '>'; >= is needed here"),
        ("count having count >= 0", "a whole number above 0 is needed"),
        ("sum wages having count >= 5", "character 11: found 'having'"),
        ("count where age = 'x", 'character 19: found "\'"; allowed are names'),
        ('count where sex = ""', "which is not empty"),
        ("count" + " " * LONGEST, f"at most {LONGEST} are allowed"),
    ],
)
def test_what_is_no_question_is_refused_by_its_place(text: str, message: str) -> None:
    with pytest.raises(QuestionError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="count by where and in sum=<>!,'\"ageF0 9", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_question_or_refused(text: str) -> None:
    try:
        asked = parse(text)
    except QuestionError:
        return
    assert isinstance(asked, Asked)
    assert str(parse(str(asked))) == str(asked)


def test_the_canonical_text_is_read_again_and_no_longer_than_the_ledger_finds() -> None:
    """Signs without blanks, and numbers with exponents, are longer when they are written out."""
    ends = ",".join(f"{n}e13" for n in range(60))
    for text in ("count where " + " and ".join(["a>=1"] * 50), f"clip w among {ends}"):
        with pytest.raises(QuestionError, match=rf"characters with its blanks; at most {LONGEST}"):
            parse(text)
    least, most = "-1000000000000000", "999999999999999.999999"
    asked = parse(f"clip w among {least}, -0.000001, {most} above 1000000000000")
    assert parse(str(asked)) == replace(asked, amount=parse(str(asked)).amount)
