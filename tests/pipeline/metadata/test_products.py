"""The catalogue of published files is what a release has, what its pages say, and where each file stands."""

from __future__ import annotations

from pathlib import Path

from features.registry import is_installed
from pipeline.metadata.products import level_of, order_of, products_of
from pipeline.release.layout import RunDirectory
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
