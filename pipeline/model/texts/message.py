"""A text that is made in one place and said in the language of another: its English, and what stands in its braces."""

from __future__ import annotations

from dataclasses import dataclass


def marked(text: str) -> str:
    """The text itself; marks one that is looked up later, where a page is made."""
    return text


def all_marked(*texts: str) -> tuple[str, ...]:
    """The same of several."""
    return texts


@dataclass(frozen=True)
class Message:
    """A text of the catalogue with its values; as `str`, in English.

    Attributes:
        text: the English, with `{name}` for each value.
        values: (name, text, whole number or message) of each.
    """

    text: str
    values: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        written = {name: f"{value:,}" if isinstance(value, int) else value for name, value in self.values}
        return " ".join(self.text.split()).format(**written)


def message(text: str, **values: object) -> Message:
    """A text that is said later, by `Texts.said`."""
    return Message(text, tuple(values.items()))
