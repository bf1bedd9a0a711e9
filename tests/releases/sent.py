"""Workers that hand results over as a cluster does: as arrays, which are read again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pipeline.execution.cluster import Portable, _arrays_in
from pipeline.execution.workers import Workers


class Sent(Workers):
    """Works on parts here, and hands their results over as a cluster does."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sent: list[tuple[Portable, dict[str, Any]]] = []

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], done: Callable[[Any], None] | None = None
    ) -> Iterator[Any]:
        tasks = [*tasks]
        for task, result in zip(tasks, super().run(function, tasks, done), strict=True):
            if not isinstance(task, Portable):
                yield result
                continue
            arrays = dict(task.arrays_of(result))
            self.sent.append((task, arrays))
            body = io.BytesIO()
            np.savez(body, allow_pickle=False, **arrays)
            yield task.result_of(_arrays_in(body.getvalue()))
