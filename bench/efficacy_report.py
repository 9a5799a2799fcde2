"""The table and the plot of `bench/efficacy.py`, from its stored runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Runs = list[dict[str, Any]]


def write(runs: Runs, out: Path, reference: str, fallback: str) -> None:
    methods = list(dict.fromkeys(run["method"] for run in runs))
    compared = reference if reference in methods else fallback
    (out / "efficacy.md").write_text(markdown(runs, methods, compared), encoding="utf-8")
    (out / "images").mkdir(parents=True, exist_ok=True)
    plot(runs, methods, out / "images" / "efficacy.png")


def cell(runs: Runs, key: str) -> tuple[float, float]:
    values = np.array([run[key] for run in runs], dtype=float)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def grouped(runs: Iterable[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], Runs]:
    found: dict[tuple[Any, ...], Runs] = defaultdict(list)
    for run in runs:
        found[tuple(run[key] for key in keys)].append(run)
    return dict(found)


def paired(ours: Runs, theirs: Runs) -> tuple[float, float, int] | None:
    """Ratio of mean Brier scores over the splits that both have, with its standard error by the delta method."""
    by_split = {run["split"]: run["brier"] for run in theirs}
    pairs = np.array([(run["brier"], by_split[run["split"]]) for run in ours if run["split"] in by_split])
    if not len(pairs):
        return None
    a, b = pairs.mean(0)
    error = (
        float(np.std(pairs[:, 0] - a / b * pairs[:, 1], ddof=1) / math.sqrt(len(pairs)) / b) if len(pairs) > 1 else 0.0
    )
    return float(a / b), error, len(pairs)


def _with_error(ratio: tuple[float, float, int]) -> str:
    return f"{ratio[0]:.3f} ± {ratio[1]:.3f}" if ratio[2] > 1 else f"{ratio[0]:.3f}, one split"


def markdown(runs: Runs, methods: list[str], reference: str) -> str:
    cells = grouped(runs, "file", "share", "method")
    files, shares = sorted({r["file"] for r in runs}), sorted({r["share"] for r in runs})
    lines = [
        "# Efficacy",
        "",
        "Measured by `make bench-efficacy` (`bench/efficacy.py`) on unseen test halves; mean over random splits",
        f"± standard error. A ratio is the Brier score over that of *{reference}* with as many labels, paired over",
        "splits. LCE is the paper's, unscaled; beside it the cost of acting on nothing. Right/false count the tested",
        "predictions with confidence of λ or more.",
        "",
        "![Brier score against labels](images/efficacy.png)",
    ]
    lines += geometric_means(cells, files, shares, methods, reference)
    for file in files:
        first = next(r for r in runs if r["file"] == file)
        lines += [
            "",
            f"## {file}",
            "",
            f"{first['tested']} test items a split; accuracy {first['accuracy']:.3f} (split 0).",
            "",
            "| labels | method | Brier | ratio | LCE .8 (none) | LCE .9 (none) | right/false .8 | right/false .9 |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for share in shares:
            for method in methods:
                if rows := cells.get((file, share, method)):
                    lines.append(line(share, method, rows, paired(rows, cells.get((file, share, reference), []))))
    return "\n".join(lines) + "\n"


def line(share: float, method: str, rows: Runs, ratio: tuple[float, float, int] | None) -> str:
    brier, error = cell(rows, "brier")
    parts = [f"{share:.0%} ({rows[0]['labels']})", method, f"{brier:.4f} ± {error:.4f}"]
    parts.append("" if ratio is None else f"{ratio[0]:.2f} ± {ratio[1]:.2f}")
    parts += [f"{cell(rows, 'lce' + t)[0]:.3f} ({cell(rows, 'nothing' + t)[0]:.3f})" for t in ("0.8", "0.9")]
    parts += [f"{cell(rows, 'right' + t)[0]:.0f} / {cell(rows, 'false' + t)[0]:.1f}" for t in ("0.8", "0.9")]
    return "| " + " | ".join(parts) + " |"


def geometric_means(
    cells: dict[tuple[Any, ...], Runs], files: list[str], shares: list[float], methods: list[str], reference: str
) -> list[str]:
    """The ratio to the reference over the shifts (files whose name begins with t and a digit)."""
    shifts = [file for file in files if file[0] == "t" and file[1:2].isdigit()]
    lines = ["", "## Brier ratio to the reference", ""]
    lines += ["| labels | method | " + " | ".join(f.split("_")[0] for f in shifts) + " | geometric mean |"]
    lines += ["|" + "---|" * (len(shifts) + 3)]
    for share in shares:
        for method in methods:
            ratios = [paired(cells.get((f, share, method), []), cells.get((f, share, reference), [])) for f in shifts]
            known = [r[0] for r in ratios if r is not None]
            if known and method != reference:
                mean = math.exp(sum(math.log(r) for r in known) / len(known)) if len(known) == len(shifts) else math.nan
                shown = ["" if r is None else _with_error(r) for r in ratios]
                complete = "" if math.isnan(mean) else f"{mean:.3f}"
                lines.append(f"| {share:.0%} | {method} | " + " | ".join(shown) + f" | {complete} |")
    return lines


STYLES = {
    "auto": ("#0072B2", "-", "o"),
    "auto, right/wrong only": ("#56B4E9", "--", "v"),
    "authors' GP, random labels": ("#D55E00", "-", "s"),
    "paper, own selection": ("#E69F00", "--", "D"),
    "paper, random labels": ("#E69F00", ":", "D"),
    "matrix logistic regression": ("#009E73", "-.", "^"),
    "temperature": ("#CC79A7", "-.", "P"),
}


def plot(runs: Runs, methods: list[str], file: Path) -> None:
    """Brier score against labels, one panel a task, both axes as they are needed to read small budgets."""
    from matplotlib.figure import Figure

    files = sorted({r["file"] for r in runs})
    columns = min(3, len(files))
    rows = math.ceil(len(files) / columns)
    figure = Figure(figsize=(4.4 * columns, 3.4 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    cells = grouped(runs, "file", "method", "share")
    for ax, name in zip(axes, files, strict=False):
        untouched = cell([r for r in runs if r["file"] == name and r["method"] == "uncalibrated"], "brier")[0]
        ax.axhline(untouched, color="#6b6b6b", lw=1, ls=":", label="uncalibrated")
        for method, (color, style, marker) in STYLES.items():
            points = sorted(
                (r[0]["labels"], *cell(r, "brier")) for (f, m, _), r in cells.items() if (f, m) == (name, method)
            )
            if points and method in methods:
                x, y, error = np.transpose(points)
                ax.errorbar(x, y, error, color=color, ls=style, marker=marker, ms=4, lw=1.5, label=method)
        ax.set(title=name, xscale="log", xlabel="labels", ylabel="Brier score", ylim=(0, 1.35 * untouched))
        counts = sorted({r["labels"] for r in runs if r["file"] == name})
        ax.set_xticks(counts, labels=[str(n) for n in counts])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e6e6e6", lw=0.6)
    for ax in axes[len(files) :]:
        ax.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(file, dpi=110)
