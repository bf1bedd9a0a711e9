"""A bar in a notebook needs no widgets, moves from 0 to 100 %, and leaves nothing behind."""

from __future__ import annotations

from pipeline.execution.progress import Silent
from pipeline.execution.steps import Step
from spinewise.progress import NotebookBar, progress_for


class Cell:
    """IPython's `display` and the handle that it gives back."""

    def __init__(self) -> None:
        self.pictures: list[str] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        return self.update(data, raw=raw)

    def update(self, data: dict[str, str], *, raw: bool) -> Cell:
        assert raw
        self.pictures.append(data["text/html"])
        return self


def test_the_bar_moves() -> None:
    cell = Cell()
    bar = NotebookBar(cell)
    steps = (Step("count <b>", lambda: None, geounits=30), Step("publish", lambda: None, geounits=10))
    bar.begin(steps)
    for step in steps:
        bar.start(step)
        bar.advance(5)
        bar.finish(step)
    bar.close()
    shares = [picture.split("value=")[1][1:7] for picture in cell.pictures[:-1]]
    assert shares[0] == "0.0000"
    assert shares[-1] == "1.0000"
    assert "0.7500" in shares
    assert sorted(shares) == shares
    assert "count &lt;b&gt;" in cell.pictures[1]
    assert cell.pictures[-1] == ""


def test_there_is_none_where_nobody_looks() -> None:
    assert isinstance(progress_for(shown=False), Silent)
    assert isinstance(progress_for(shown=True), Silent)  # the tests have no terminal
