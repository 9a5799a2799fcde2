"""The paper's figures and some more, from stored runs; each a matplotlib `Figure`, panels by task."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from opcal.experiments.stages.scores import LAMBDAS
from opcal.experiments.telling.runs import Runs
from opcal.experiments.telling.tables import own

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: dict[str, tuple[str, str, str]] = {
    "uncalibrated": ("#6b6b6b", ":", ""),
    "paper": ("#E69F00", "--", "D"),
    "auto": ("#0072B2", "-", "o"),
    "TS": ("#CC79A7", "-.", "P"),
    "PS-logit": ("#009E73", "-.", "^"),
    "RFR": ("#D55E00", ":", "s"),
    "Venn–Abers": ("#56B4E9", ":", "v"),
    "last layer": ("#D55E00", "-.", "s"),
    "whole network": ("#000000", "-", "X"),
    "fine-tuned, then paper": ("#E69F00", ":", "D"),
    "fine-tuned, then auto": ("#0072B2", ":", "o"),
}
Panel = Callable[["Axes", str], None]


def panels(names: list[str], draw: Panel, title: str) -> Figure:
    """One panel a task, one legend for all."""
    from matplotlib.figure import Figure

    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(3.6 * columns, 3.0 * rows + 0.7), layout="constrained", dpi=110)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax, name in zip(axes, names, strict=False):
        draw(ax, name)
        ax.set_title(f"task {name}", loc="left", fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e6e6e6", lw=0.6)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    unique: dict[str, Any] = {}
    for ax in axes[: len(names)]:
        unique |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(
        unique.values(), unique.keys(), loc="outside lower center", ncols=min(5, 2 * columns), frameon=False, fontsize=8
    )
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def line(ax: Axes, name: str, x: Any, y: Any) -> None:
    color, style, marker = STYLES[name]
    ax.plot(x, y, color=color, ls=style, marker=marker or None, ms=4, lw=1.5, label=name)


def lce(runs: Runs) -> Figure | None:
    """LCE against λ, scaled by (1 − λ), a tenth of the labels."""
    names = runs.tasks("few")

    def draw(ax: Axes, task: str) -> None:
        levels = np.array(LAMBDAS)
        right = runs.mean(task, "few", "accuracy") or 0.0
        ax.plot(levels, right * (1 - levels), color="#b0b0b0", lw=1, label="act on nothing")
        ax.plot(levels, (1 - right) * levels, color="#b0b0b0", lw=1, ls="--", label="act on everything")
        ax.axvspan(0, 0.1, color="#f2e6e6", lw=0, label="u ≤ .11")
        top = 0.0
        for method in ("uncalibrated", "paper", "auto"):
            path = ("methods", method) if method == "uncalibrated" else own(method, 0.9)
            found = [runs.mean(task, "few", *path, "lce", i) for i in range(len(levels))]
            losses = np.array([np.nan if v is None else v for v in found]) * (1 - levels)
            top = max(top, float(np.nanmax(losses)))
            line(ax, method, levels, losses)
        ax.set(xlabel="λ", ylabel="(1 − λ) LCE", xlim=(0, 1), ylim=(0, 1.15 * top))

    return panels(names, draw, "Loss due to confidence error, a tenth of the labels") if names else None


def data_efficiency(runs: Runs) -> Figure | None:
    """Brier score against labels, both axes logarithmic."""
    names = runs.tasks("curves")

    def draw(ax: Axes, task: str) -> None:
        before = runs.mean(task, "curves", "curves", "uncalibrated", 0, "brier")
        if before is not None:
            ax.axhline(before, color="#6b6b6b", ls=":", lw=1.3, label="uncalibrated")
        for method in ("paper", "auto", "TS", "PS-logit", "RFR", "Venn–Abers"):
            line(ax, method, *curve(runs, task, method, "brier"))
        ax.set(xscale="log", yscale="log", xlabel="labels", ylabel="Brier score")

    return panels(names, draw, "Brier score against labels") if names else None


def curve(runs: Runs, task: str, method: str, *key: str) -> tuple[list[float], list[float]]:
    points = max((len(run["curves"].get(method, [])) for run in runs.of(task, "curves")), default=0)
    found = [
        (runs.mean(task, "curves", "curves", method, i, "labels"), runs.mean(task, "curves", "curves", method, i, *key))
        for i in range(points)
    ]
    kept = [(x, y) for x, y in found if x is not None and y is not None]
    return [x for x, _ in kept], [y for _, y in kept]


def efficiency(runs: Runs) -> Figure | None:
    """Shares of high-confidence right and false predictions as labels grow; 0 labels: uncalibrated."""
    names = runs.tasks("curves")

    def draw(ax: Axes, task: str) -> None:
        unseen = runs.mean(task, "curves", "unseen") or 1.0
        for method in ("paper", "auto"):
            for kind, style in (("right", "-"), ("false", "--")):
                x, y = curve(runs, task, method, "confident 0.9", kind)
                zero = runs.mean(task, "curves", "curves", "uncalibrated", 0, "confident 0.9", kind) or 0.0
                share = [value / unseen for value in [zero, *y]]
                color, _, marker = STYLES[method]
                ax.plot([0, *x], share, color=color, ls=style, marker=marker, ms=3.5, lw=1.4, label=f"{method}, {kind}")
        ax.set(xlabel="labels", ylabel="share with confidence ≥ .9", ylim=(0, None))

    return panels(names, draw, "High-confidence predictions as labels grow") if names else None


def fine_tuning(runs: Runs) -> Figure | None:
    """Brier score against labels: calibration, fine-tuning, and the one after the other."""
    names = runs.tasks("finetune")

    def draw(ax: Axes, task: str) -> None:
        for method in ("paper", "auto"):
            line(ax, method, *curve(runs, task, method, "brier"))
        for layers in ("last layer", "whole network"):
            if (found := tuned(runs, task, layers))[0]:
                line(ax, layers, *found)
        for method in ("paper", "auto"):
            line(ax, f"fine-tuned, then {method}", *tuned(runs, task, "then calibrated", method))
        ax.set(xlabel="labels", ylabel="Brier score", ylim=(0, None))

    return panels(names, draw, "Calibration and fine-tuning") if names else None


def tuned(runs: Runs, task: str, *path: str, key: str = "brier") -> tuple[list[float], list[float]]:
    found: tuple[list[float], list[float]] = ([], [])
    i = 0
    while (labels := runs.mean(task, "finetune", "tuned", *path, i, "labels")) is not None:
        found[0].append(labels)
        found[1].append(runs.mean(task, "finetune", "tuned", *path, i, key) or 0.0)
        i += 1
    return found


def tuned_accuracy(runs: Runs) -> Figure | None:
    """Accuracy after fine-tuning: where it is effective and where it is not (the paper's Figure 3)."""
    names = runs.tasks("finetune")

    def draw(ax: Axes, task: str) -> None:
        before = runs.mean(task, "finetune", "before", "accuracy")
        if before is not None:
            ax.axhline(before, color="#6b6b6b", ls=":", lw=1.3, label="before")
        for layers in ("last layer", "whole network"):
            if (found := tuned(runs, task, layers, key="accuracy"))[0]:
                line(ax, layers, *found)
        ax.set(xlabel="labels", ylabel="accuracy")

    return panels(names, draw, "Accuracy of the fine-tuned model") if names else None


def decomposition(runs: Runs) -> Figure | None:
    """Reliability (to be small) and resolution (to be large) of each method, all labels."""
    names = runs.tasks("efficacy")
    methods = ("uncalibrated", "TS", "PS-conf", "IR", "PS-logit", "paper", "auto")

    def draw(ax: Axes, task: str) -> None:
        for shift, (part, color, hatch) in enumerate(
            (("reliability", "#D55E00", "///"), ("resolution", "#0072B2", ""))
        ):
            values = [runs.mean(task, "efficacy", "methods", m, part) or 0.0 for m in methods]
            at = np.arange(len(methods)) + 0.4 * shift
            ax.bar(at, values, 0.38, color="white" if hatch else color, edgecolor=color, hatch=hatch, label=part)
        ax.set_xticks(np.arange(len(methods)) + 0.2, methods, rotation=60, fontsize=7)

    return panels(names, draw, "Brier decomposition, all labels") if names else None


def selections(runs: Runs) -> Figure | None:
    names = runs.tasks("selection")

    def draw(ax: Axes, task: str) -> None:
        designs = list(runs.of(task, "selection")[0]["designs"])
        for method, offset in (("paper", 0.0), ("auto", 0.4)):
            cells = [runs.cell(task, "selection", "designs", d, method, "brier") for d in designs]
            at = np.arange(len(designs)) + offset
            means, errors = ([0.0 if c is None else getattr(c, part) for c in cells] for part in ("mean", "error"))
            ax.bar(at, means, 0.38, yerr=errors, color=STYLES[method][0], label=f"learnt by {method}")
        ax.set_xticks(np.arange(len(designs)) + 0.2, designs, rotation=60, fontsize=7)
        ax.set(ylabel="Brier score")

    return panels(names, draw, "Which items to label: Brier score with a tenth of the labels") if names else None


FIGURES: dict[str, tuple[Callable[[Runs], Any], str]] = {
    "lce": (lce, "LCE against λ, scaled by 1 − λ; the shaded region is u ≤ .11"),
    "data-efficiency": (data_efficiency, "Brier score against the number of labels, logarithmic axes"),
    "efficiency": (efficiency, "Shares of high-confidence right and false predictions as labels grow"),
    "fine-tuning": (fine_tuning, "Brier score against labels: calibration, fine-tuning, fine-tuning then calibration"),
    "fine-tuned-accuracy": (tuned_accuracy, "Accuracy after fine-tuning"),
    "decomposition": (decomposition, "Reliability and resolution, all labels"),
    "selections": (selections, "The paper's selection and others"),
}
