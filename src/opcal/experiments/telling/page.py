"""paper.md, index.html and the figures, from the runs that are there."""

from __future__ import annotations

from pathlib import Path

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
    tables.differences,
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


def write(out: Path, *, examples: list[Path] | None = None) -> list[Path]:
    """Everything that can be told from OUT/runs."""
    runs = Runs(store.all_runs(out))
    drawn = draw(runs, out)
    lines = ["# The paper's evaluation, rerun", "", *introduction(runs)]
    for section in SECTIONS:
        lines += filled(section(runs))
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


def filled(section: list[str]) -> list[str]:
    """A section whose stage was not run says nothing; a table is more than its two lines of head."""
    rows = sum(line.startswith("|") for line in section)
    return section if rows > 2 or any(line.startswith("- ") for line in section) else []


def introduction(runs: Runs) -> list[str]:
    versions = runs.all[0]["versions"] if runs.all else {}
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    small = dict.fromkeys(run["task"] for run in runs.all if run["settings"]["quick"])
    kind = f"**Quick** (small trainings, few splits, fields cut short): task {', '.join(small)}. " if small else ""
    return [
        f"{kind}Li et al., Operational Calibration (ESEC/FSE 2020), measured again from raw data. Every number comes "
        f"from "
        "a run stored under `runs/`; these commands make them again, to the last digit on the same machine (times "
        "are no "
        "such figures). `paper` is the paper's method, `auto` opcal's default.",
        "",
        *(f"- `{command}`" for command in commands(runs)),
        "",
        f"Versions: {told}.",
        "",
    ]


def commands(runs: Runs) -> list[str]:
    """One command for all tasks that were run in the same way."""
    ways: dict[str, list[str]] = {}
    for task in dict.fromkeys(run["task"] for run in runs.all):
        mine = [run for run in runs.all if run["task"] == task]
        settings = mine[0]["settings"]
        seeds = {
            stage: 1 + max(run["seed"] for run in mine if run["stage"] == stage) for stage in {r["stage"] for r in mine}
        }
        way = f"--models {settings['models']} --splits {seeds.get('curves', 1)} --repeats {seeds.get('few', 1)}"
        way += " --quick" * settings["quick"] + f" --size {settings['size']}" * (settings["size"] != "default")
        ways.setdefault(way, []).append(task[0])
    return [
        f"opcal paper {' '.join(f'--task {task}' for task in dict.fromkeys(names))} {way} --data DATA --out OUT"
        for way, names in ways.items()
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
