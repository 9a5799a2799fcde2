"""paper.md, index.html and the figures, from the runs that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opcal.experiments import store
from opcal.experiments.telling import extras, figures, markdown, tables
from opcal.experiments.telling.runs import Runs

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:.85rem;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .5rem;"
    "text-align:left;white-space:nowrap}.wide{overflow-x:auto}img{max-width:100%}figcaption{color:#555;font-size:.85rem}"
)
SECTIONS = (
    tables.table_1,
    tables.table_2,
    tables.table_3,
    extras.few_labels,
    extras.problem_1,
    extras.decomposition,
    extras.designs,
    extras.systematic,
    extras.ineffective_region,
    extras.fine_tuning,
    extras.time,
)


def write(out: Path, *, quick: bool, examples: list[Path] | None = None) -> list[Path]:
    """Everything that can be told from OUT/runs."""
    runs = Runs(store.all_runs(out))
    drawn = draw(runs, out)
    lines = ["# The paper's evaluation, rerun", "", *introduction(runs, quick)]
    for section in SECTIONS:
        lines += section(runs)
    lines += ["## Figures", ""]
    for path, words in drawn:
        lines += [f"![{words}](figures/{path.name})", ""]
    for path in examples or []:
        lines += [f"![Examples of origin and operation](figures/{path.name})", ""]
    (out / "paper.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>The paper's evaluation, rerun</title><style>{STYLE}</style>\n{markdown.html(lines)}\n</html>\n"
    )
    (out / "index.html").write_text(page, encoding="utf-8")
    return [out / "index.html", out / "paper.md"]


def introduction(runs: Runs, quick: bool) -> list[str]:
    settings = {run["stage"]: 0 for run in runs.all}
    for run in runs.all:
        settings[run["stage"]] = max(settings[run["stage"]], run["seed"] + 1)
    used = ", ".join(f"{stage} {n}" for stage, n in settings.items())
    versions: dict[str, Any] = runs.all[0]["versions"] if runs.all else {}
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    kind = "A **quick** run: small trainings, few splits, fields cut short. " if quick else ""
    return [
        f"{kind}Li et al., Operational Calibration (ESEC/FSE 2020), measured again from raw data by `opcal paper`. "
        f"Every "
        "number comes from a run stored under `runs/`, and the same command makes it again. `paper` is the paper's "
        "method, `auto` opcal's default.",
        "",
        f"Seeds a stage: {used}. Versions: {told}.",
        "",
    ]


def draw(runs: Runs, out: Path) -> list[tuple[Path, str]]:
    """PNG and SVG of each figure."""
    from matplotlib import rc_context

    (out / "figures").mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, (make, words) in figures.FIGURES.items():
        if (figure := make(runs)) is None:
            continue
        # A fixed salt and no date: the same runs give the same bytes.
        with rc_context({"svg.hashsalt": "opcal"}):
            figure.savefig(out / "figures" / f"{name}.svg", metadata={"Date": None})
        figure.savefig(out / "figures" / f"{name}.png")
        drawn.append((out / "figures" / f"{name}.png", words))
    return drawn
