"""The catalogue of published files is what a release has, what its pages say, and where each file stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.homes import SPEC as HOMES

from features.registry import is_installed
from pipeline.metadata.products import TABLES, level_of, order_of, products_of
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import parse_spec
from pipeline.spec.slots import installed_slots

RUN = RunDirectory(Path("/runs/town"))
PAGE = Path(__file__).parents[3] / "docs" / "release_directory.md"


def test_the_page_of_the_directory_lists_the_catalogue() -> None:
    """Word for word, each kind of file once; companions have some of them in a folder of their own."""
    folder = "histograms, tables, measurements ... of a companion, laid out as above"
    products = products_of(installed_slots().features)
    wanted = {f"    public/{product.path:36} {product.about}" for product in products if product.about}
    wanted.add(f"    public/{'companions/NAME/...':36} {folder}")
    found = {line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("    public/")}
    assert found >= wanted
    slots = installed_slots()
    assert found == wanted or slots.missing or slots.unwritten  # files of a feature that is taken away
    assert {product.path for product in products} == {product.path for product in products if product.about}


#: What adds the wages of its persons to the town of households.
WAGES = """
[companions.wages]
amount = "wage"
between = ["0", "500"]
unit = "10"
privacy = { rho = "1" }
schema.attributes = { residence = ["household", "quarters"] }
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", tract = "0", block = "1/2" } }
"""


def test_a_spec_lists_files_in_the_order_of_the_installation() -> None:
    """Of persons in households, and of their wages: both features have files after tables, and state them elsewhere."""
    if not (is_installed("joins") and is_installed("amounts")):
        pytest.skip("joins or amounts are not installed")
    of_spec = products_of(parse_spec(HOMES + WAGES).of_features)
    assert list(of_spec) == [product for product in products_of(installed_slots().features) if product in of_spec]
    at = of_spec.index(TABLES) + 1
    assert [one.path.split("/")[0] for one in of_spec[at : at + 2]] == ["household_sizes", "amounts"]


def test_public_files_are_in_the_order_of_a_run_and_know_their_level() -> None:
    levels = ["state", "block"]
    units = RUN.universe("units")
    files = [
        (RUN.spine, ""),
        (RUN.polygons("state"), "state"),
        (RUN.main.constraint(0), ""),
        (RUN.main.invariant("block", "total"), "block"),
        (units.measurement("state", "a * b"), "state"),
        (RUN.main.measurement("block", "state"), "block"),
        (RUN.main.selected("block", "state"), "state"),
        (units.histogram("state"), "state"),
        (RUN.main.histogram("block"), "block"),
        (RUN.main.table("state", "block"), "block"),
        (RUN.main.estimates("block"), "block"),
        (RUN.main.microdata, "block"),
        *([(RUN.report, ""), (RUN.report_file(12), "")] if is_installed("report") else []),
        (RUN.manifest, ""),
    ]
    assert [level_of(RUN, path, levels) for path, _ in files] == [level for _, level in files]
    assert sorted((path for path, _ in files[::-1]), key=lambda path: order_of(RUN, path, levels)) == [
        path for path, _ in files
    ]
