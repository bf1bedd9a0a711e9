"""Arrow without pandas, where no table of pandas can come.

At its first conversion pyarrow looks whether pandas is installed, by importing it: two thirds of a core second in each
process of a run, none of which has a use for it. Here it looks once and finds none. Whoever imports pandas later gets
it, and `to_pandas` looks again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Hidden(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not looked for", name=fullname)
        return None


def spare_pandas() -> None:
    """Let pyarrow look for pandas now, and find none; nothing if pandas is in use here already."""
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)
