"""`opcal paper`."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from opcal.errors import PoolError
from opcal.experiments import run, store, tasks
from opcal.experiments.settings import SIZES, Settings, quick
from opcal.experiments.telling import examples, page


@click.command("paper")
@click.option(
    "--task",
    "names",
    multiple=True,
    type=click.Choice(tasks.CHOICES),
    default=("all",),
    show_default=True,
    help="Which tasks; repeat the option for several. 2 brings both of its models.",
)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the data.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("opcal-paper"),
    show_default=True,
    help="Folder for runs, tables, figures and index.html; what is there is not run again.",
)
@click.option("--quick", "is_quick", is_flag=True, help="Small: 40 seconds of training a network, two splits.")
@click.option(
    "--size",
    type=click.Choice(SIZES),
    default="default",
    show_default=True,
    help="full: the paper's own networks on the original data sets in their usual layouts; wants a GPU.",
)
@click.option("--models", type=click.IntRange(min=1), help="Trainings of each network [default: 3, quick: 1].")
@click.option("--splits", type=click.IntRange(min=1), help="Random splits [default: 5, quick: 2].")
@click.option("--repeats", type=click.IntRange(min=1), help="Repeats of Table 3 [default: 10, quick: 2].")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="Processes; the figures do not depend on it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all runs as JSON.")
def command(
    names: tuple[str, ...],
    data: Path,
    out: Path,
    is_quick: bool,
    size: str,
    models: int | None,
    splits: int | None,
    repeats: int | None,
    workers: int,
    as_json: bool,
) -> None:
    """The paper's tables and figures, rerun from raw data.

    Trains what must be trained, measures every method on every task, and writes runs/*.json, paper.md, figures and
    index.html to OUT. Stopped and started again, it goes on where it was. Tasks 1 to 4 need torch
    (pip install torch==2.13.0, then opcal[paper]); tasks 5 and 6 do not.

    \b
    Example:  opcal paper --task 5 --quick --data ../shared/data --out my-paper
    """
    if not data.is_dir():
        raise PoolError(f"--data {data} is no folder: pass the one that holds the data sets")
    base = quick(data, out) if is_quick else Settings(data, out)
    given: dict[str, Any] = {
        name: value for name, value in (("models", models), ("splits", splits), ("repeats", repeats)) if value
    }
    settings = dataclasses.replace(base, size=size, **given)
    chosen = tasks.chosen(names)
    console = Console(stderr=as_json)
    _run(console, settings, [task.name for task in chosen], workers)
    drawn = [path for task in chosen for path in examples.draw(settings, task)]
    written = page.write(out, examples=drawn)
    if as_json:
        click.echo(json.dumps(store.all_runs(out)))
    console.print("Tables and figures: " + ", ".join(str(path) for path in written), soft_wrap=True)


def _run(console: Console, settings: Settings, names: list[str], workers: int) -> None:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task("beginning", total=None)
        run.run(
            settings,
            names,
            workers=workers,
            told=lambda what, done, of: bar.update(shown, description=f"done: {what}", completed=done, total=of),
        )
