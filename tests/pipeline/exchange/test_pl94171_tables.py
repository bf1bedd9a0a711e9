"""The lines of the redistricting tables, against the combinations of races counted one by one."""

from __future__ import annotations

from pipeline.exchange.pl94171_tables import LINES, RACES, SINGLE_RACES, race_lines, race_sums


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
