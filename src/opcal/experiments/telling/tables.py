"""Tables 1, 2 and 3 with the paper's printed figures beside the measured ones."""

from __future__ import annotations

from opcal.experiments import tasks
from opcal.experiments.methods import IGNORE_CONFIDENCE, METHODS, WORDS
from opcal.experiments.telling.markdown import table
from opcal.experiments.telling.runs import Cell, Runs, shown

ACCEPTED_HARM = 0.02


def table_1(runs: Runs) -> list[str]:
    rows = []
    for name in runs.tasks("accuracy"):
        task = tasks.task(name)
        first = runs.of(name, "accuracy")[0]
        origin, operation = (runs.cell(name, "accuracy", key) for key in ("origin", "operation"))
        printed = task.printed
        rows.append(
            [
                name,
                task.title,
                f"{_percent(origin)} → {_percent(operation)}",
                f"{printed.accuracy[0]} → {printed.accuracy[1]}",
                f"{first['pool']:,} / {first['unseen']:,}",
                f"{printed.size:,}",
                f"{printed.model}, {printed.data}",
            ]
        )
        rows += [
            [name, f"  {key.removeprefix('operation, ')} only", f"→ {_percent(runs.cell(name, 'accuracy', key))}"]
            + [""] * 4
            for key in first
            if key.startswith("operation, ")
        ]
    head = [
        "task",
        "data",
        "accuracy %, origin → operation",
        "paper's",
        "pool / unseen",
        "paper's pool",
        "paper's task",
    ]
    told = [f"- Task {name}: {tasks.task(name).differs}" for name in runs.tasks("accuracy")]
    return ["## Table 1: tasks", "", *table(head, rows), "What differs from the paper:", "", *told, ""]


def _percent(cell: Cell | None) -> str:
    return "" if cell is None else Cell(100 * cell.mean, 100 * cell.error, cell.n).text(1)


def table_2(runs: Runs) -> list[str]:
    found = runs.tasks("efficacy")
    rows = []
    for method in METHODS:
        cells = [_brier(runs, name, method) for name in found]
        rows.append([f"**{method}**" if method in ("paper", "auto") else method, *cells, WORDS[method]])
    authors = [
        [f"{method}, as the authors' figures suggest", *(_authors(runs, name, method) for name in found), "see below"]
        for method in ("PS-conf", "PS-logit", "IR", "SAR")
    ]
    lines = ["## Table 2: Brier score, all labels of the pool, unseen items", ""]
    lines += ["Measured, mean ± standard error over random splits; in brackets what the paper printed.", ""]
    lines += table(["method", *(f"task {name}" for name in found), ""], [*rows, *authors])
    return [*lines, *_authors_words(), *_harm(runs, found), *_groups(runs, found)]


def _brier(runs: Runs, name: str, method: str) -> str:
    printed = tasks.task(name).printed.brier.get(method)
    text = shown(runs.cell(name, "efficacy", "methods", method, "brier"))
    return text + (f" ({printed:.3f})" if printed is not None and text else "")


def _authors(runs: Runs, name: str, method: str) -> str:
    printed = tasks.task(name).printed.brier.get(method)
    text = shown(runs.cell(name, "efficacy", "authors", method))
    return text + (f" ({printed:.3f})" if printed is not None and text else "")


def _authors_words() -> list[str]:
    return [
        "Printed figures of PS-conf., IR and SAR are 1 − accuracy in many rows (task 1: .320 for IR and SAR at 68.0 % "
        "accuracy; task 3: .529 for IR at 47.1 %; task 4: .364 for IR at 63.6 %; task 6: .546 for PS-conf. at 45.3 "
        "%) or "
        "the accuracy itself (task 3: .471 for PS-conf.): a confidence of 1, or of 0, for everything. A regression "
        "of the "
        'class index (0, 1, 2, …) clipped to [0, 1] gives just that; the rows "as the authors\' figures suggest" do '
        "so. "
        "Platt's answers there are predicted class indices: 0, and so near the accuracy, where class 0 is the most "
        "frequent, else 1. The .529 of SAR in task 4 is 1 − accuracy of task 3: that row looks exchanged. PS-logit "
        "there "
        "is a new classifier's highest probability, whose class may be another than the model's. These rows explain "
        "the "
        "paper; the others are the methods as they should be.",
        "",
    ]


def differences(runs: Runs) -> list[str]:
    """What was measured beside what was printed, a sentence a task."""
    lines = ["## Measured and printed", ""]
    for name in runs.tasks("efficacy"):
        task = tasks.task(name)
        pairs = [
            f"{words} {measured:.3f} ({task.printed.brier[method]:.3f})"
            for method, words in (("uncalibrated", "uncalibrated"), ("paper", "paper's method"), ("TS", "temperature"))
            if (measured := runs.mean(name, "efficacy", "methods", method, "brier")) is not None
        ]
        lines.append(f"- Task {name}: {', '.join(pairs)}. {task.why}")
    return [*lines, ""]


def _harm(runs: Runs, found: list[str]) -> list[str]:
    worse = []
    for name in found:
        before = runs.mean(name, "efficacy", "methods", "uncalibrated", "brier")
        for method in METHODS:
            after = runs.mean(name, "efficacy", "methods", method, "brier")
            if before is not None and after is not None and after > before + ACCEPTED_HARM:
                worse.append(f"- Task {name}, {method}: {after:.3f} against {before:.3f}. {_reason(method)}")
    if not worse:
        return ["No method is worse than the untouched confidence by more than .02 on any task.", ""]
    return ["Worse than the untouched confidence by more than .02:", "", *worse, ""]


def _reason(method: str) -> str:
    if method in IGNORE_CONFIDENCE:
        return (
            "It looks at neighbours' answers only, not at the model's confidence; with many classes and few labels a "
            "class, neighbours say less than the confidence does."
        )
    if method == "MC-dropout":
        return "It uses no label: the network is as sure of its mistakes with units dropped."
    return "See its parts in the table of the Brier decomposition: what it gains in reliability it loses in resolution."


def _groups(runs: Runs, found: list[str]) -> list[str]:
    lines = []
    for name in found:
        first = runs.of(name, "efficacy")[0]["methods"]["uncalibrated"]
        for key in (key for key in first if key.startswith("brier, ")):
            cells = [[m, shown(runs.cell(name, "efficacy", "methods", m, key))] for m in METHODS]
            kept = [row for row in cells if row[1]]
            lines += [f"Task {name}, unseen items that are {key.removeprefix('brier, ')}:", ""]
            lines += table([row[0] for row in kept], [[row[1] for row in kept]])
    return lines


def table_3(runs: Runs) -> list[str]:
    lines = ["## Table 3: a tenth of the labels", ""]
    lines += [
        "High-confidence predictions on unseen items, before → after, mean over repeats; each method chose its own "
        "labels, "
        "`paper` for the λ in question and without an audit slice, `auto` with its default settings (a quarter of the "
        "labels drawn at random). LCE as the paper defines it, and in brackets (1 − λ) times that, which is what its "
        "Table 3 prints; beside it the cost of acting on nothing.",
        "",
    ]
    head = ["task", "λ", "method", "right", "false", "LCE before → after", "act on nothing", "paper's right", "false"]
    rows = []
    for name in runs.tasks("few"):
        for level in (0.8, 0.9):
            rows += [_row_3(runs, name, level, method) for method in ("paper", "auto")]
    return lines + table([*head, "LCE (scaled)"], rows)


def own(method: str, level: float) -> tuple[str, ...]:
    """Where a method's figures lie in a run of the stage "few"."""
    return ("methods", method, f"λ={level}" if method == "paper" else "any λ")


def _row_3(runs: Runs, name: str, level: float, method: str) -> list[str]:
    before, after = ("methods", "uncalibrated", f"confident {level}"), (*own(method, level), f"confident {level}")

    def pair(key: str, digits: int) -> str:
        values = [runs.mean(name, "few", *path, key) for path in (before, after)]
        return " → ".join("?" if v is None else f"{v:.{digits}f}" for v in values)

    printed = tasks.task(name).printed.confident.get(level)
    theirs = ["", "", ""]
    if printed is not None and method == "paper":
        (a, b), (c, d), (e, f) = printed
        theirs = [f"{a:g} → {b:g}", f"{c:g} → {d:g}", f"{e:.3f} → {f:.3f}"]
    nothing = runs.mean(name, "few", *after, "nothing")
    loss = f"{pair('lce', 3)} ({pair('lce scaled', 3)})"
    return [
        name,
        f"{level}",
        method,
        pair("right", 1),
        pair("false", 1),
        loss,
        "" if nothing is None else f"{nothing:.3f} ({nothing * (1 - level):.3f})",
        *theirs,
    ]
