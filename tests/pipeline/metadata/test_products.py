"""The catalogue of published files is what a release has, what its pages say, and where each file stands."""

from __future__ import annotations

from pathlib import Path

from pipeline.metadata.products import products_of
from pipeline.spec.slots import installed_slots

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
