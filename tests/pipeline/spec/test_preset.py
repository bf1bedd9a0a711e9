"""The presets are published configurations: those of the redistricting data compared with its published figures."""

from __future__ import annotations

from fractions import Fraction

from pipeline.exchange.pl94171_tables import LINES, RACES, SINGLE_RACES, race_lines, race_sums
from pipeline.model.universe import Universe
from pipeline.spec.preset import load_preset
from pipeline.spec.release_spec import parse_spec

#: sigma^2 = 1 / (rho x level share x query share), as published, rounded to the digits that stand here.
PUBLISHED_VARIANCES = [
    ("State", "total", "1.209"),
    ("County", "total", "4.702"),
    ("County", "hispanic * cenrace", "524.9"),
    ("County", "detailed", "19.49"),
    ("Tract", "total", "6.110"),
    ("Tract", "hispanic * cenrace", "4.953"),
    ("Tract", "detailed", "19.86"),
    ("Block_Group", "total", "3.069"),
    ("Block_Group", "hispanic * cenrace", "4.960"),
    ("Block_Group", "detailed", "4.063"),
    ("Block", "total", "7963"),
    ("Block", "detailed", "10.09"),
]
HHGQ = (
    '["household", "correctional", "juvenile", "nursing", "other_institutional", "college", "military", '
    '"other_noninstitutional"]'
)
CENSUS = ("US", "State", "County", "Tract", "Block_Group", "Block")


def spec_text(levels: tuple[str, ...], *, strategy: str = 'preset = "pl94-2020-us"', more: str = "") -> str:
    lengths = ", ".join(f"{level} = {i + 1}" for i, level in enumerate(levels))
    return f"""
name = "x"
[geography]
file = "f.csv"
column = "b"
levels = {{ {lengths} }}
[schema.attributes]
hhgq = {HHGQ}
votingage = ["0", "1"]
hispanic = ["0", "1"]
cenrace = ["a", "b", "c"]
[strategy]
{strategy}
{more}
"""


def universe(levels: tuple[str, ...], **more: str) -> Universe:
    return parse_spec(spec_text(levels, **more)).universes()[0]


def variance(found: Universe, level: str, query: str) -> Fraction:
    at = found.strategy.level(level)
    share = next(m.share for m in at.queries if m.query.name == query)
    return 1 / (found.budget * at.share * share)


def rounded_like(value: float, text: str) -> str:
    return f"{value:.{len(text.partition('.')[2])}f}"


def test_budgets_are_the_certificates_squares() -> None:
    persons, units = Fraction(542, 339) ** 2, Fraction(3379, 12343) ** 2
    assert load_preset("pl94-2020-us").rho == load_preset("pl94-2020-pr").rho == persons
    assert load_preset("pl94-2020-us-units").rho == load_preset("pl94-2020-pr-units").rho == units
    assert round(float(persons), 2) == 2.56
    assert round(float(units), 7) == 0.0749437


def test_published_variances() -> None:
    found = universe(CENSUS)
    assert found.budget == load_preset("pl94-2020-us").rho
    for level, query, text in PUBLISHED_VARIANCES:
        assert rounded_like(float(variance(found, level, query)), text) == text, (level, query)


def test_a_spec_with_fewer_levels_keeps_the_noise_of_the_others() -> None:
    whole, state = universe(CENSUS), universe(CENSUS[1:])
    assert state.budget == whole.budget * Fraction(3995, 4099)
    assert sum(level.share for level in state.strategy.levels) == 1
    for level in CENSUS[1:]:
        for query in ("votingage", "detailed"):
            assert variance(state, level, query) == variance(whole, level, query)


def test_parts_of_a_preset_are_replaced() -> None:
    found = universe(
        ("State", "Block"),
        strategy='preset = "pl94-2020-us"\nlevels.State.share = "1/4"\nlevels.Block = '
        '{ share = "3/4", queries = { total = "1" } }',
    )
    assert [level.share for level in found.strategy.levels] == [Fraction(1, 4), Fraction(3, 4)]
    assert len(found.strategy.level("State").queries) == 11
    assert [m.query.name for m in found.strategy.level("Block").queries] == ["total"]
    # The budget is what the two levels have in the preset, however it is shared out between them.
    assert found.budget == load_preset("pl94-2020-us").rho * Fraction(1440 + 165, 4099)


def wide_universe(preset: str, levels: tuple[str, ...], shape: dict[str, int], privacy: str) -> Universe:
    """A universe whose attributes have so many values; relgq has the values that the preset groups."""
    own = {recode.attribute: [value for _, group in recode.groups for value in group]
           for recode in load_preset(preset).recodes if recode.attribute == "relgq"}  # fmt: skip
    values = {name: own.get(name, [str(i) for i in range(n)]) for name, n in shape.items()}
    attributes = "".join(f"{name} = {each}\n" for name, each in values.items()).replace("'", '"')
    lengths = ", ".join(f"{level} = {i + 1}" for i, level in enumerate(levels))
    geography = f'[geography]\nfile = "f.csv"\ncolumn = "b"\nlevels = {{ {lengths} }}\n'
    text = f'name = "x"\nstrategy = "{preset}"\n{privacy}\n{geography}[schema.attributes]\n{attributes}'
    return parse_spec(text).universes()[0]


def test_the_test_of_1940_has_its_seven_queries_at_four_fifths_of_epsilon_a_level() -> None:
    shape = {"hhgq": 8, "sex": 2, "age": 116, "hispanic": 2, "race": 6, "citizen": 2}
    levels = ("state", "county", "supdist", "ED")
    found = wide_universe("das-1940", levels, shape, '[privacy]\nframework = "pure"')
    assert found.schema.n_cells == 44_544
    assert found.budget == 4 * Fraction(4, 5)
    for level in found.strategy.levels:
        assert found.budget * level.share == Fraction(4, 5)
        assert {m.query.size: m.share for m in level.queries} == {
            8: Fraction(2, 10),
            116 * 2 * 6 * 2: Fraction(5, 10),
            116 * 2: Fraction(1, 20),
            29 * 2: Fraction(1, 20),
            8 * 2: Fraction(1, 20),
            2 * 2: Fraction(1, 20),
            44_544: Fraction(1, 10),
        }
    ages = found.schema.recode("age_64")
    assert ages is not None
    assert ages.labels == ("0-63", "64-115")
    assert wide_universe("das-1940", levels, shape, "").budget == 8 * Fraction(4, 5)


def test_characteristics_of_persons_have_ten_queries_and_the_published_budget() -> None:
    """Shares are stated in ten-thousandths of rho, 49,622 in all; sizes of queries as in the published files."""
    shape = {"relgq": 42, "sex": 2, "age": 116, "hispanic": 2, "cenrace": 63}
    levels = ("US", "State", "County", "Prim", "Tract_Subset_Group", "tract", "Block_Group", "Block")
    found = wide_universe("dhc-persons", levels, shape, "")
    assert found.schema.n_cells == 1_227_744
    assert found.budget == Fraction(49_622, 10_000)
    sizes = [12, 6, 76, 4, 8, 60, 19, 2 * 2 * 40 * 25 * 63, 423_360, 1_227_744]
    parts = {"US": 73, "State": 999, "County": 310, "Prim": 478, "Tract_Subset_Group": 478, "tract": 868,
             "Block_Group": 430, "Block": 11}  # fmt: skip
    fourfold = {"County": (5, 6), "tract": (5, 6), "Block_Group": (), "Block": ()}
    for level in levels:
        at = found.strategy.level(level)
        assert [m.query.size for m in at.queries] == sizes
        for number, measured in enumerate(at.queries):
            times = 4 if number in fourfold.get(level, (5,)) else 1
            assert found.budget * at.share * measured.share == Fraction(parts[level] * times, 10_000)


def combinations_by_bits() -> list[frozenset[int]]:
    """The non-empty subsets of six races, smaller ones first and then in the order of their members."""
    subsets = [frozenset(race for race in range(6) if bits >> race & 1) for bits in range(1, 64)]
    return sorted(subsets, key=lambda some: (len(some), sorted(some)))


def test_the_63_combinations_stand_in_the_order_of_p1() -> None:
    names = ["_".join(SINGLE_RACES[race] for race in sorted(some)) for some in combinations_by_bits()]
    assert list(RACES) == names
    assert len(RACES) == 63


def test_every_line_of_p1_is_a_combination_or_a_sum_of_the_right_ones() -> None:
    """Lines of sums hold all, one race, two or more, and each number of races from two to six."""
    subsets = combinations_by_bits()
    counted = {line: {subset} for line, subset in zip(race_lines(), subsets, strict=True)}
    for line, parts in sorted(race_sums().items(), reverse=True):
        groups = [counted[part] for part in parts]
        counted[line] = set().union(*groups)
        assert sum(map(len, groups)) == len(counted[line]), "no combination counts twice"
    assert sorted(counted) == list(range(LINES["P1"]))
    totals = [counted[line] for line in sorted(race_sums())]
    of_size = [{some for some in subsets if len(some) == size} for size in range(1, 7)]
    several = set(subsets) - of_size[0]
    assert totals == [set(subsets), of_size[0], several, *of_size[1:]]
