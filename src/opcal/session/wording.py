"""Answers as people write them: a class name or number, "outside", "right", "wrong", "skip"."""

from __future__ import annotations

from typing import Any

from opcal.core.method import OUTSIDE, WRONG
from opcal.errors import UnknownLabel
from opcal.session.values import Settings

WORDS = ("outside", "right", "wrong", "skip")


def meaning(text: str, settings: Settings) -> dict[str, Any]:
    """What a text says, as fields of `Given`. A class's own name goes before the words above, and before a number.

    A word in parentheses is never a class: "(wrong)" where a class is called wrong.
    """
    text = text.strip()
    classes = settings.classes
    if classes is not None and text in classes:
        return {"label": classes.index(text)}
    word = text.lower()
    word = word[1:-1] if word[:1] == "(" and word[-1:] == ")" else word
    if word in ("right", "wrong"):
        return {"correct": word == "right"}
    if word == "skip":
        return {"skip": True}
    if word == "outside":
        return {"label": OUTSIDE}
    try:
        number = int(text)
    except ValueError:
        number = OUTSIDE - 1
    end = settings.n_classes or (len(classes) if classes is not None else None)
    if number < OUTSIDE or (end is not None and number >= end):
        raise UnknownLabel(f"{text!r} is none of the classes ({_known(settings)}) nor one of {', '.join(WORDS)}")
    return {"label": number}


def said(label: int | None, settings: Settings) -> str:
    """The text that `meaning` reads back; a right answer is its class."""
    words = {None: "skip", OUTSIDE: "outside", WRONG: "wrong"}
    if label in words:
        word = words[label]
        return f"({word})" if settings.classes is not None and word in settings.classes else word
    assert label is not None
    return str(label) if settings.classes is None else settings.classes[label]


def _known(settings: Settings) -> str:
    if settings.classes is None:
        return "0 or higher" if settings.n_classes is None else f"0 to {settings.n_classes - 1}"
    return ", ".join(settings.classes[:8]) + (", …" if len(settings.classes) > 8 else "")
