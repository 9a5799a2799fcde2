"""Tables beyond the paper's three: decomposition, Problem 1, designs, the systematic control, fine-tuning, time."""

from __future__ import annotations

from opcal.experiments.methods import METHODS
from opcal.experiments.stages.few import RIVALS
from opcal.experiments.stages.scores import LAMBDAS
from opcal.experiments.stages.selection import DESIGNS
from opcal.experiments.stages.systematic import COMPARED
from opcal.experiments.telling.markdown import table
from opcal.experiments.telling.runs import Runs, shown
from opcal.experiments.telling.tables import own

PARTS = ("reliability", "resolution", "uncertainty", "remainder", "brier")


def decomposition(runs: Runs) -> list[str]:
    lines = ["## Brier decomposition, all labels", ""]
    lines += ["Brier = reliability − resolution + uncertainty + remainder (confidence varies within a bin).", ""]
    rows = [
        [name, method, *(shown(runs.cell(name, "efficacy", "methods", method, part)) for part in PARTS)]
        for name in runs.tasks("efficacy")
        for method in ("uncalibrated", "paper", "auto", "TS", "PS-conf", "IR", "PS-logit")
    ]
    return lines + table(["task", "method", *PARTS], rows)


def few_labels(runs: Runs) -> list[str]:
    lines = ["## Brier score with a tenth of the labels", ""]
    lines += ["`paper` and `auto` choose theirs, the others are given random ones; unseen items.", ""]
    names = ["uncalibrated", "paper", "auto", *RIVALS]
    paths = {n: ("methods", n) for n in names} | {m: own(m, 0.9) for m in ("paper", "auto")}
    rows = [[task, *(shown(runs.cell(task, "few", *paths[n], "brier")) for n in names)] for task in runs.tasks("few")]
    return lines + table(["task", *names], rows)


def problem_1(runs: Runs) -> list[str]:
    keys = ("on the pool", "on what it asked for", "on the rest of the pool", "brier")
    lines = ["## The pool itself (the paper's Problem 1) beside unseen items", ""]
    lines += ["Brier score with a tenth of the labels. Judged on what it asked for, a method looks far too good.", ""]
    rows = [
        [task, method, *(shown(runs.cell(task, "few", *own(method, 0.9), key)) for key in keys)]
        for task in runs.tasks("few")
        for method in ("paper", "auto")
    ]
    return lines + table(["task", "method", *keys[:3], "on unseen items"], rows)


def designs(runs: Runs) -> list[str]:
    lines = ["## Which items to label", ""]
    lines += ["Brier score on unseen items and false predictions of confidence .9, a tenth of the labels.", ""]
    rows = [
        [task, method, *(_design(runs, task, design, method) for design in DESIGNS)]
        for task in runs.tasks("selection")
        for method in ("paper", "auto")
    ]
    return lines + table(["task", "learnt by", *DESIGNS], rows)


def _design(runs: Runs, task: str, design: str, method: str) -> str:
    at = ("designs", design, method)
    false = runs.mean(task, "selection", *at, "confident 0.9", "false")
    return f"{shown(runs.cell(task, 'selection', *at, 'brier'))}; {0 if false is None else false:.0f}"


def systematic(runs: Runs) -> list[str]:
    lines = ["## The control: a systematic error", ""]
    lines += ["The origin's own test items with a part of each missing; Brier score on unseen ones.", ""]
    rows = [
        [task, share, *(shown(runs.cell(task, "systematic", "shares", share, m, "brier")) for m in COMPARED)]
        for task in runs.tasks("systematic")
        for share in ("10%", "100%")
    ]
    return lines + table(["task", "labels", *COMPARED], rows) if rows else []


def ineffective_region(runs: Runs) -> list[str]:
    """LCE before and after where a false prediction costs little."""
    at = [i for i, level in enumerate(LAMBDAS) if level <= 0.5]
    lines = ["## Where calibration cannot help: u ≤ .11", ""]
    lines += [
        "LCE by λ = u/(1+u) with a tenth of the labels, uncalibrated / paper / auto / acting on everything. Where u "
        "≤ .11 "
        "(λ ≤ .1) nearly every prediction is worth acting on, whatever its confidence.",
        "",
    ]
    rows = []
    for task in runs.tasks("few"):
        paths = (("methods", "uncalibrated"), own("paper", 0.9), own("auto", 0.9))
        wrong = 1 - (runs.mean(task, "few", "accuracy") or 0)
        cells = [
            [_three(runs.mean(task, "few", *path, "lce", i)) for path in paths]
            + [_three(wrong * LAMBDAS[i] / (1 - LAMBDAS[i]))]
            for i in at
        ]
        rows.append([task, *(" / ".join(cell) for cell in cells)])
    return lines + table(["task", *(f"λ {LAMBDAS[i]}" for i in at)], rows)


def _three(value: float | None) -> str:
    return "?" if value is None else f"{value:.4f}".removeprefix("0")


def fine_tuning(runs: Runs) -> list[str]:
    lines = ["## Fine-tuning as a rival", "", "Accuracy and Brier score of the tuned model on unseen items.", ""]
    rows = []
    for task in runs.tasks("finetune"):
        for run_layers in [runs.of(task, "finetune")[0]["tuned"]]:
            for layers, points in run_layers.items():
                if isinstance(points, list):
                    rows += [_tuned(runs, task, layers, i, points[i]["labels"]) for i in range(len(points))]
    before = [
        f"- Task {t} before: accuracy {shown(runs.cell(t, 'finetune', 'before', 'accuracy'))}, "
        f"Brier {shown(runs.cell(t, 'finetune', 'before', 'brier'))}."
        for t in runs.tasks("finetune")
    ]
    return [*lines, *before, "", *table(["task", "what is tuned", "labels", "accuracy", "Brier"], rows)]


def _tuned(runs: Runs, task: str, layers: str, i: int, labels: int) -> list[str]:
    cells = [shown(runs.cell(task, "finetune", "tuned", layers, i, key)) for key in ("accuracy", "brier")]
    return [task, layers, str(labels), *cells]


def time(runs: Runs) -> list[str]:
    """CPU seconds are no figures to repeat: they depend on what else the machine does."""
    names = [m for m in METHODS if m not in ("uncalibrated", "MC-dropout")]
    lines = ["## Execution time", ""]
    lines += [
        "CPU seconds, one thread: learning from all labels and scoring unseen items (the paper: 3.5 to 50 s).",
        "",
    ]
    rows = [
        [task, *(_seconds(runs.mean(task, "efficacy", "cpu seconds", m)) for m in names)]
        for task in runs.tasks("efficacy")
    ]
    return lines + table(["task", *names], rows)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
