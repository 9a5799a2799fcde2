"""A report's figures as inline images with text alternatives."""

from __future__ import annotations

import base64
import io
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opcal.report import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 300_000
"""Bytes of an example's image that is taken into the page."""


@dataclass(frozen=True)
class Picture:
    """One figure."""

    name: str
    source: str
    """A data: URL."""
    alt: str
    caption: str


def pictures(facts: Mapping[str, Any]) -> list[Picture]:
    """All figures that these facts suffice for."""
    made = []
    if facts["reliability"] is not None:
        made.append(_reliability(facts))
        made.append(_losses(facts))
        made.append(_efficiency(facts))
    made.append(_gains(facts))
    return made


def _reliability(facts: Mapping[str, Any]) -> Picture:
    curve = facts["reliability"]
    figure = plots.reliability_of(curve, level=0.9)
    alt = "Reliability diagram. " + " ".join(
        f"{when.capitalize()}: "
        + ", ".join(
            f"of {n} items with mean confidence {x:.2f}, {y:.0%} right ({low:.0%} to {high:.0%})"
            for n, x, y, low, high in zip(*(curve[when][k] for k in _KEYS), strict=True)
        )
        + "."
        for when in ("before", "after")
    )
    caption = (
        "Share that is right against confidence, on items drawn at random; bands are exact 90 % intervals. On the "
        "diagonal, confidence is honest."
    )
    return Picture("reliability", _svg(figure), alt, caption)


_KEYS = ("count", "confidence", "accuracy", "lower", "upper")


def _losses(facts: Mapping[str, Any]) -> Picture:
    curve = facts["losses"]
    names = ("threshold", "before", "after", "nothing", "everything")
    at = [i for i, t in enumerate(curve["threshold"]) if t in (0.5, 0.8, 0.9, 0.95)]
    alt = "Loss due to wrong confidence against λ. " + " ".join(
        f"At λ = {t:.3g}: before {b:.3f}, after {a:.3f}, acting on nothing {n:.3f}, on everything {e:.3f}."
        for t, b, a, n, e in ([curve[k][i] for k in names] for i in at)
    )
    caption = (
        "What wrong confidence costs, (1 − λ)·LCE, for every break-even confidence λ. A confidence is of use only "
        "where it beats acting on nothing and acting on everything."
    )
    return Picture("losses", _svg(plots.losses_of(curve)), alt, caption)


def _efficiency(facts: Mapping[str, Any]) -> Picture:
    curve, threshold = facts["efficiency"], facts["quality"]["threshold"]
    figure = plots.efficiency_curve(
        np.array(curve["labels"]), np.array(curve["right"]), np.array(curve["false"]), threshold=threshold
    )
    alt = "Efficiency curve. " + " ".join(
        f"After {n} labels: {r:.1%} confident and right, {f:.1%} confident and false."
        for n, r, f in zip(curve["labels"], curve["right"], curve["false"], strict=True)
    )
    caption = (
        f"How few labels it took: predictions with confidence {threshold:.3g} or more, right and false, as labels grew."
    )
    return Picture("efficiency", _svg(figure), alt, caption)


def _gains(facts: Mapping[str, Any]) -> Picture:
    curve = facts["decisions"]["curve"]
    size = facts["labels"]["pool"]
    share, gains, regrets = (np.array(curve[name]) for name in ("items", "expected", "regret"))
    figure = plots.gain_curve(share / size, gains, regrets, curve["best"] / size)
    best = int(np.argmax(curve["expected"]))
    alt = (
        f"Expected gain per item against the share of predictions acted on: {curve['expected'][0]:.3f} when none, "
        f"{curve['expected'][best]:.3f} at best when {curve['items'][best] / size:.0%}, {curve['expected'][-1]:.3f} "
        f"when all are acted on; regret {curve['regret'][0]:.3f}, {curve['regret'][best]:.3f} and "
        f"{curve['regret'][-1]:.3f}."
    )
    caption = (
        "Expected gain per item at the costs, as more predictions are acted on, the surest first; regret is what "
        "knowing which predictions are right would bring more."
    )
    return Picture("gains", _svg(figure), alt, caption)


def _svg(figure: Figure) -> str:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "opcal"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def example_image(payload: str | None) -> str | None:
    """A data: URL where the payload is a small image file on this machine."""
    if payload is None or "://" in payload or "\n" in payload or len(payload) > 1000:
        return None
    kind = mimetypes.guess_type(payload)[0] or ""
    file = Path(payload)
    try:
        if kind not in ("image/png", "image/jpeg", "image/gif", "image/webp") or file.stat().st_size > LARGEST:
            return None
        return f"data:{kind};base64," + base64.b64encode(file.read_bytes()).decode()
    except OSError:
        return None
