"""Writes the messages of all errors to messages.txt beside this, to be read by people when one changes: `make docs`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_suffix(".txt")
FOLDERS = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")


def messages() -> str:
    """Each module with the sentences of its errors, in its order; values in braces, as the code has them."""
    parts = []
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            found = list(dict.fromkeys(_raised(ast.parse(path.read_text("utf-8")))))
            if found:
                parts.append("\n".join([path.relative_to(PROJECT).as_posix(), *(f"    {one}" for one in found)]))
    return "\n\n".join(parts) + "\n"


def _raised(tree: ast.Module) -> Iterator[str]:
    raised = sorted((node for node in ast.walk(tree) if isinstance(node, ast.Raise)), key=lambda node: node.lineno)
    for node in raised:
        if isinstance(node.exc, ast.Call):
            texts = [_text(given) for given in node.exc.args if _is_text(given)]
            if texts:
                yield " ".join(" ".join(texts).split())


def _is_text(node: ast.expr) -> bool:
    """Whether an argument is a sentence: a string with blanks, or one with values."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    )


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


if __name__ == "__main__":
    PAGE.write_text(messages(), "utf-8")
