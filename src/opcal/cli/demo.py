"""`opcal demo`."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from opcal.cli.progress import working
from opcal.demo import THRESHOLDS, Demo, Scores, draw, run


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("opcal-demo"),
    show_default=True,
    help="Folder for the PNG plots and demo.json.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which half is the pool, what is drawn."
)
@click.option("--label", "by_hand", is_flag=True, help="Open the labelling page: you are the radiologist.")
@click.option("--no-browser", is_flag=True, help="With --label: print the link and open nothing.")
@click.option("--port", type=click.IntRange(1, 65535), help="With --label: where to serve.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of a table.")
def command(out: Path, seed: int, by_hand: bool, no_browser: bool, port: int | None, as_json: bool) -> None:
    """The whole story on a real case, in under a minute.

    A network that learned to see pneumonia on some chest X-rays is run on others. Its confidence is wrong there. opcal
    asks a (simulated) radiologist for a tenth of the pool's labels and mends the confidence of unseen X-rays.

    \b
    Example:  opcal demo --out my-demo
              opcal demo --label
    """
    if by_hand:
        from opcal.cli.labelling import serve
        from opcal.web.labelling.demo import demo_session

        with working("preparing the X-rays"):
            session = demo_session(out, seed)
        if not as_json:
            click.echo("You are the radiologist: is it normal (key 1) or pneumonia (key 2)? The panel follows you.")
        serve(session, port=port, browser=not no_browser, as_json=as_json)
        return
    console = Console(stderr=as_json)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("labels"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("asking the radiologist", total=None)
        demo = run(seed, lambda done, of: bar.update(task, completed=done, total=of))
    written = draw(demo, out)
    if as_json:
        click.echo(json.dumps(demo.figures()))
        return
    _tell(console, demo)
    console.print("Plots and figures: " + ", ".join(str(path) for path in written), soft_wrap=True)


def _tell(console: Console, demo: Demo) -> None:
    table = Table(title=f"{demo.unseen_size} unseen X-rays, {demo.budget} of {demo.pool_size} pool X-rays labelled")
    table.add_column("")
    for name in ("before", "after"):
        table.add_column(name, justify="right")
    for name, first, second in _rows(demo):
        table.add_row(name, first, second)
    console.print(table)
    wrong_before, wrong_after = (s.confident_wrong["0.9"] for s in (demo.before, demo.after))
    console.print(
        f"The model is right on {demo.accuracy:.0%} of them; its predictions are untouched. "
        f"Wrong predictions that claim to be sure (0.9 or more): {wrong_before} before, {wrong_after} after."
    )


def _rows(demo: Demo) -> list[tuple[str, str, str]]:
    columns = [_column(scores) for scores in (demo.before, demo.after)]
    return [(name, first, columns[1][name]) for name, first in columns[0].items()]


def _column(scores: Scores) -> dict[str, str]:
    column = {
        "Brier score (lower is better)": f"{scores.brier:.3f}",
        "calibration error (smooth ECE)": f"{scores.ece:.3f}",
    }
    for t in (f"{t:g}" for t in THRESHOLDS):
        column |= {
            f"sure and right (confidence ≥ {t})": str(scores.confident_right[t]),
            f"sure and wrong (confidence ≥ {t})": str(scores.confident_wrong[t]),
            f"loss by confidence error, λ = {t}": f"{scores.lce[t]:.3f}",
            f"  acting on nothing instead, λ = {t}": f"{scores.act_on_nothing[t]:.3f}",
            f"  acting on everything instead, λ = {t}": f"{scores.act_on_everything[t]:.3f}",
        }
    return column
