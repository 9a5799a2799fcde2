"""Answers in words, and as plain figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opcal.assess.accuracy import Accuracy


def of_accuracy(a: Accuracy) -> str:
    """Accuracy, what the model claims, and the verdict where one was asked for."""
    told = (
        f"Of {len(a.pool):,} predictions here, {a.estimate:.1%} are right: {a.lower:.1%} to {a.upper:.1%} with "
        f"{a.level:.0%} confidence, from {count(a.labels, 'label')} drawn at random. The model claims {a.claimed:.1%}."
    )
    return told if a.required is None else f"{told} {verdict(a)}"


def verdict(a: Accuracy) -> str:
    """The go/no-go sentence."""
    if a.verdict == "go":
        return f"Go: at least {a.required:.1%} is required, and even the lower end, {a.lower:.1%}, reaches it."
    if a.verdict == "no-go":
        return f"No-go: at least {a.required:.1%} is required, and even the upper end, {a.upper:.1%}, misses it."
    return (
        f"Undecided: the required {a.required:.1%} lies between {a.lower:.1%} and {a.upper:.1%}; "
        f"about {count(a.more, 'label')} more, drawn at random, will probably tell."
    )


def figures_of(a: Accuracy) -> dict[str, Any]:
    """Every figure of an accuracy, as plain values."""
    told: dict[str, Any] = {
        name: getattr(a, name)
        for name in ("estimate", "lower", "upper", "level", "interval", "labels", "claimed", "required", "verdict")
    }
    told |= {"items": len(a.pool), "more": a.more, "saving": a.saving, "labels_for_3_points": a.labels_for(3)}
    for name in ("difference", "simple", "stratified"):
        found = getattr(a, name)
        told[name] = {"estimate": found.value, "lower": found.lower, "upper": found.upper}
    if a.inclusion is None:
        told |= {
            name: {"lower": low, "upper": high} for name, (low, high) in (("exact", a.exact), ("anytime", a.anytime))
        }
    return told | {"sentence": a.sentence}


def count(n: int, what: str) -> str:
    """ "1 label", "1,200 labels"."""
    return f"1 {what}" if n == 1 else f"{n:,} {what}s"
