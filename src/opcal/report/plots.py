"""Figures of what a calibration changed: each returns a matplotlib `Figure` and touches no global state.

Colours are Okabe and Ito's, and every series also has its own line and marker, so that grey print stays readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from opcal.core import metrics
from opcal.core.method import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

LAMBDAS: Final = np.arange(1, 100) / 100
INK, FAINT = "#222222", "#6b6b6b"
LEGEND: Final[dict[str, Any]] = {"handlelength": 2.8, "facecolor": "white", "edgecolor": "none", "framealpha": 0.85}
TITLE: Final[dict[str, Any]] = {"x": 0.015, "ha": "left", "fontsize": 11.5, "fontweight": "bold", "color": INK}


@dataclass(frozen=True)
class Style:
    """How one series looks, in colour and in grey."""

    color: str
    line: str | tuple[float, tuple[float, ...]]
    marker: str
    hatch: str = ""

    def of_line(self, label: str) -> dict[str, Any]:
        return {"color": self.color, "ls": self.line, "marker": self.marker, "lw": 1.8, "ms": 5.5, "label": label}


BEFORE = Style("#D55E00", (0, (5, 2)), "s", "////")
AFTER = Style("#0072B2", "-", "o")
RIGHT = Style("#009E73", "-", "^")
FALSE = Style("#000000", (0, (5, 2)), "D")
MORE = (Style("#CC79A7", "-.", "^"), Style("#E69F00", (0, (5, 1, 1, 1, 1, 1)), "D"), Style("#56B4E9", ":", "v"))


def reliability(
    before: FloatArray, after: FloatArray, correct: BoolArray, *, bins: int = 10, level: float = 0.9
) -> Figure:
    """Accuracy against confidence in equal bins with `level` intervals, before and after; below, how many items."""
    figure = _figure(5.2, 5.6)
    _reliability(figure, before, after, correct, bins, level)
    return figure


def lce_curve(
    confidences: Mapping[str, FloatArray], correct: BoolArray, *, threshold: float = 0.9, scaled: bool = True
) -> Figure:
    """Loss due to confidence error against λ = u/(1+u) (the paper's section on costs), scaled by (1-λ) or as defined.

    "Act on nothing" and "act on everything" stand beside it: a confidence is of use only where it beats both. The
    title compares the last series with the first at `threshold`.
    """
    figure = _figure(5.6, 4.6)
    _lce(figure, confidences, correct, threshold, scaled)
    return figure


def efficiency_curve(labels: NDArray[Any], right: FloatArray, false: FloatArray, *, threshold: float = 0.9) -> Figure:
    """The paper's efficiency curve: proportions of high-confidence right and false predictions as labels grow."""
    figure = _figure(5.2, 5.0)
    _efficiency(figure, labels, right, false, threshold)
    return figure


def reliability_of(curve: Mapping[str, Any], *, level: float = 0.9) -> Figure:
    """The diagram from stored curves: {"before": {"confidence": [...], "accuracy", "lower", "upper", "count"}, ...}."""
    figure = _figure(5.2, 5.0)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=FAINT, lw=1, ls=":", label="perfect")
    for name, style in (("before", BEFORE), ("after", AFTER)):
        of = metrics.ReliabilityCurve(**{key: np.asarray(value) for key, value in curve[name].items()})
        _reliability_line(axes, of, style, name)
    figure.suptitle("Is confidence honest?", **TITLE)
    _detail(axes, f"{_items(int(sum(curve['after']['count'])))}, {level:.0%} intervals; large marker: many items")
    axes.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(-0.03, 1.2))
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.legend(loc="upper left", ncols=3, columnspacing=1.2, **LEGEND)
    _tidy(axes)
    return figure


def losses_of(curve: Mapping[str, Any]) -> Figure:
    """(1 − λ)·LCE from stored curves: {"threshold": [...], "before", "after", "nothing", "everything"}."""
    figure = _figure(5.2, 4.6)
    axes = figure.subplots()
    for name, line in (("nothing", ":"), ("everything", "-.")):
        axes.plot(curve["threshold"], curve[name], color=FAINT, lw=1.4, ls=line, label=f"act on {name}")
    for name, style in (("before", BEFORE), ("after", AFTER)):
        axes.plot(curve["threshold"], curve[name], markevery=3, **style.of_line(name))
    figure.suptitle("What wrong confidence costs", **TITLE)
    best = np.minimum(curve["nothing"], curve["everything"])
    top = 1.45 * max(float(np.max([*curve["before"], *curve["after"], *best])), 1e-3)
    axes.set(xlabel="λ, the confidence from which acting pays", ylabel="loss per item", xlim=(0, 1), ylim=(0, top))
    axes.legend(loc="upper left", **LEGEND)
    _tidy(axes)
    return figure


def gain_curve(share: FloatArray, expected: FloatArray, regret: FloatArray, best: float) -> Figure:
    """Expected gain and regret per item against the share of predictions acted on."""
    from matplotlib.ticker import PercentFormatter

    figure = _figure(5.2, 4.2)
    axes = figure.subplots()
    axes.plot(share, expected, markevery=10, **AFTER.of_line("expected gain"))
    axes.plot(share, regret, markevery=10, **BEFORE.of_line("regret"))
    axes.axvline(best, color=FAINT, lw=1, ls=":", label=f"best: {best:.0%}")
    figure.suptitle("How many to act on", **TITLE)
    axes.set(xlabel="share of predictions acted on, the surest first", ylabel="gain per item", xlim=(0, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.legend(loc="lower left", **LEGEND)
    _tidy(axes)
    return figure


def summary(
    before: FloatArray,
    after: FloatArray,
    correct: BoolArray,
    *,
    labels: NDArray[Any],
    right: FloatArray,
    false: FloatArray,
    threshold: float = 0.9,
) -> Figure:
    """The three figures side by side: honest confidence, what it saves, how few labels it takes."""
    figure = _figure(13.2, 4.9)
    grid = figure.add_gridspec(1, 3, wspace=0.04)
    honest, saving, labelling = (figure.add_subfigure(grid[0, i]) for i in range(3))
    _reliability(honest, before, after, correct, bins=10, level=0.9)
    _lce(saving, {"before": before, "after": after}, correct, threshold, scaled=True)
    _efficiency(labelling, labels, right, false, threshold)
    return figure


def _reliability(
    part: FigureBase, before: FloatArray, after: FloatArray, correct: BoolArray, bins: int, level: float
) -> None:
    upper, lower = part.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    upper.plot([0, 1], [0, 1], color=FAINT, lw=1, ls=":", label="perfect")
    for name, confidence, style in (("before", before, BEFORE), ("after", after, AFTER)):
        curve = metrics.reliability_curve(confidence, correct, bins=bins, level=level)
        _reliability_line(upper, curve, style, name)
        _histogram(lower, curve, style, bins, left=name == "before")
    right, old, new = (f"{np.mean(values):.0%}" for values in (correct, before, after))
    part.suptitle(f"{right} are right: claimed {old}, now {new}", **TITLE)
    _detail(upper, f"{_items(len(correct))}, {level:.0%} intervals; large marker: many items")
    upper.set(ylabel="share that is right", xlim=(0, 1), ylim=(-0.03, 1.2), yticks=np.linspace(0, 1, 6))
    upper.legend(loc="upper left", ncols=3, columnspacing=1.2, **LEGEND)
    lower.set(ylabel="items", xlabel="confidence")
    lower.locator_params(axis="y", nbins=3, integer=True)
    for axes in (upper, lower):
        _tidy(axes)


def _reliability_line(axes: Axes, curve: metrics.ReliabilityCurve, style: Style, name: str) -> None:
    x, y, count = curve.confidence, curve.accuracy, curve.count
    axes.fill_between(x, curve.lower, curve.upper, color=style.color, alpha=0.12, lw=0)
    axes.vlines(x, curve.lower, curve.upper, color=style.color, lw=1, alpha=0.7)
    axes.plot(x, y, markevery=slice(0, 0), **style.of_line(name))
    axes.scatter(x, y, s=8 + 92 * count / count.max(), marker=style.marker, color=style.color, zorder=3, clip_on=False)


def _histogram(axes: Axes, curve: metrics.ReliabilityCurve, style: Style, bins: int, *, left: bool) -> None:
    rank = np.arange(len(curve.count))
    # A mean just over its bin's upper edge is rounding; no two bins may fall together.
    index = np.searchsorted(np.arange(1, bins) / bins, curve.confidence - 1e-9, side="left")
    place = (rank + np.maximum.accumulate(index - rank) + (0.08 if left else 0.5)) / bins
    look: dict[str, Any] = {"facecolor": "white", "hatch": style.hatch} if style.hatch else {"facecolor": style.color}
    axes.bar(place, curve.count, 0.42 / bins, align="edge", edgecolor=style.color, lw=0.8, **look)


def _lce(
    part: FigureBase, confidences: Mapping[str, FloatArray], correct: BoolArray, threshold: float, scaled: bool
) -> None:
    axes = part.subplots()
    curves = {name: _losses(confidence, correct, scaled) for name, confidence in confidences.items()}
    nothing, everything = next(iter(curves.values()))[1:]
    axes.plot(LAMBDAS, nothing, color=FAINT, lw=1.4, ls=":", label="act on nothing")
    axes.plot(LAMBDAS, everything, color=FAINT, lw=1.4, ls="-.", label="act on everything")
    for style, (name, (losses, _, _)) in zip(_styles(len(curves)), curves.items(), strict=True):
        axes.plot(LAMBDAS, losses, markevery=(4, 10), **style.of_line(name))
    axes.axvline(threshold, color=FAINT, lw=0.8)
    _lce_words(part, axes, confidences, correct, threshold, scaled)
    _lce_scale(axes, [*(losses for losses, _, _ in curves.values()), np.minimum(nothing, everything)], nothing, scaled)
    axes.set(xlabel="λ, the confidence from which acting pays", ylabel="loss per item", xlim=(0, 1))
    axes.legend(loc="upper left", **LEGEND)
    _tidy(axes)


def _lce_words(
    part: FigureBase,
    axes: Axes,
    confidences: Mapping[str, FloatArray],
    correct: BoolArray,
    threshold: float,
    scaled: bool,
) -> None:
    values = {n: metrics.lce(c, correct, threshold=threshold, scaled=scaled) for n, c in confidences.items()}
    part.suptitle(f"Wrong confidence costs {_change(*values.values())} at λ = {threshold:.3g}", **TITLE)
    ends = dict.fromkeys([*values][:1] + [*values][-1:])
    numbers = ", ".join(f"{name} {values[name]:.3f}" for name in ends)
    _detail(axes, f"{'(1-λ)·LCE' if scaled else 'LCE'} there: {numbers}")


def _losses(confidence: FloatArray, correct: BoolArray, scaled: bool) -> NDArray[np.float64]:
    """LCE, that of acting on nothing and that of acting on everything, [3, thresholds]."""
    at = [metrics.lce_comparison(confidence, correct, threshold=float(t), scaled=scaled) for t in LAMBDAS]
    return np.array([(c.lce, c.act_on_nothing, c.act_on_everything) for c in at]).T


def _styles(n: int) -> list[Style]:
    """The first series is what was, the last what is."""
    between = [MORE[i % len(MORE)] for i in range(n - 2)]
    return [BEFORE, *between, AFTER][:n] if n != 1 else [AFTER]


def _change(first: float, *later: float) -> str:
    """The last cost beside the first, in words."""
    if not later:
        return f"{first:.3f}"
    if first == 0:
        return "more" if later[-1] > 0 else "the same"
    percent = round(100 * (later[-1] / first - 1))
    return f"{abs(percent)}% {'less' if percent < 0 else 'more'}" if percent else "the same"


def _lce_scale(axes: Axes, curves: list[NDArray[np.float64]], nothing: NDArray[np.float64], scaled: bool) -> None:
    """The two references run far above what matters: they leave the picture at its top instead of flattening it."""
    if not scaled:
        axes.set_yscale("symlog", linthresh=0.1)
    top = max(float(c.max()) for c in curves) or float(nothing.max()) or 1.0
    axes.set_ylim(0, top * (1.45 if scaled else 4))


def _efficiency(part: FigureBase, labels: NDArray[Any], right: FloatArray, false: FloatArray, threshold: float) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    upper, lower = part.subplots(2, 1, sharex=True)
    series = ((upper, right, "right", RIGHT), (lower, false, "false", FALSE))
    for axes, share, name, style in series:
        axes.plot(labels, share, markevery=max(1, len(labels) // 16), clip_on=False, **style.of_line(name))
        top = 1.15 * max(float(np.max(share)), 0.01)
        axes.set_ylim(0, top)
        axes.set_ylabel(f"confident and {name}")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if top > 0.05 else 1))
        _tidy(axes)
    lower.set_xlabel("labels spent (0: uncalibrated)")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    spent = "1 label" if labels[-1] == 1 else f"{int(labels[-1])} labels"
    part.suptitle(f"{spent}: confident mistakes {false[0]:.1%} → {false[-1]:.1%}", **TITLE)
    _detail(upper, f"confident: ≥ {threshold:.3g}; right ones {right[0]:.0%} → {right[-1]:.0%}")


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")


def _detail(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=9.5, color=FAINT, pad=7)


def _items(n: int) -> str:
    return "1 item" if n == 1 else f"{n} items"


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", lw=0.7)
    axes.set_axisbelow(True)
