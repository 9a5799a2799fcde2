"""`opcal start`, `ask`, `tell`, `undo`, `status`: a labelling session from the command line."""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from opcal.cli.progress import working
from opcal.pool import Pool
from opcal.session import Given, Receipt, Session, Status, Task
from opcal.session.wording import meaning, said


def login() -> str:
    """Who labels, where nobody says: $OPCAL_ANNOTATOR, or the name of the login."""
    if name := os.environ.get("OPCAL_ANNOTATOR"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "annotator"


annotator = click.option("--annotator", default=login, help="Who labels. [default: $OPCAL_ANNOTATOR or the login]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
session = click.argument("session", metavar="SESSION")


def opened(where: str) -> Session:
    """The session, without background work: a command ends before it would be of use."""
    found = Session.open(where)
    found.background = False
    return found


def _costs(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """A number, or what a file of costs says."""
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        from opcal import costs

        return costs.read(os.fsdecode(click.Path(exists=True, dir_okay=False).convert(value, param, ctx)))
    return click.FloatRange(min=0).convert(number, param, ctx)


@click.command("start")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the new session.")
@click.option("--budget", type=click.IntRange(min=1), help="How many answers may be asked for in all.")
@click.option(
    "--costs",
    metavar="U|FILE",
    callback=_costs,
    help="Loss of acting on a wrong prediction, where a right one gains 1; or a file of costs, YAML or JSON.",
)
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.9, show_default=True, help="Where you would act.")
@click.option("--db", help="postgresql://… instead of an SQLite file in the folder.")
@click.option("--overlap", type=float, default=0.0, help="Share of items with a second opinion, or 2, 3, … opinions.")
@click.option("--overlap-share", type=click.FloatRange(0, 1), default=0.25, help="With --overlap 2: on which share.")
@click.option("--disputes", type=click.Choice(["vote", "arbiter"]), default="vote", help="What settles a tie.")
@click.option("--blind", type=click.Choice(["audit", "all", "none"]), default="audit", help="Hide predictions where.")
@click.option("--method", default="auto", help='"auto" or "paper".')
@click.option("--design", default="auto", help='"auto", "variance", "kmeans", "paper" or "random".')
@click.option("--audit", type=click.FloatRange(0, 1), default=0.25, help="Share of questions drawn at random.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The same seed asks the same items.")
@as_json
def start(pool: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Start a labelling session on a pool: everything that is needed later lies in the new folder.

    \b
    Example:  opcal start pool --out ward3 --budget 60 --costs costs.yaml
    """
    if options["overlap"] < 2:
        del options["overlap_share"]
    with working("looking at the pool"), Session.start(Pool.open(pool), out, **options) as made:
        status = made.status()
    click.echo(json.dumps(asdict(status)) if as_json else f"{out}: {status.items:,} items. Next: opcal ask {out} -n 5")


@click.command("ask")
@session
@click.option("-n", "n", type=click.IntRange(min=1), default=1, show_default=True, help="How many items.")
@click.option("--label-studio", type=click.Path(dir_okay=False, path_type=Path), help="Write them as tasks to import.")
@annotator
@as_json
def ask(session: str, n: int, label_studio: Path | None, annotator: str, as_json: bool) -> None:
    """The items to label next. They are yours for a while; what you hold already comes first.

    \b
    Example:  opcal ask ward3 -n 10
    """
    with working("choosing"), opened(session) as found:
        tasks = found.lease(annotator, n)
        classes = found.settings.classes
        if label_studio is not None:
            from opcal.session.interchange import label_studio_tasks

            label_studio.write_text(json.dumps(label_studio_tasks(tasks, found.settings), indent=1), encoding="utf-8")
        status = None if tasks else found.status()
    if as_json:
        click.echo(json.dumps([asdict(task) for task in tasks]))
    elif tasks:
        Console().print(_table(tasks, classes), soft_wrap=True)
        click.echo(f"Answer:  opcal tell {session} {tasks[0].item}=LABEL   (or outside, right, wrong, skip)", err=True)
    else:
        assert status is not None
        click.echo(_nothing(status))


def _table(tasks: list[Task], classes: tuple[str, ...] | None) -> Table:
    table = Table(box=None)
    for name in ("item", "prediction", "shows"):
        table.add_column(name)
    for task in tasks:
        at = task.predicted
        shown = "hidden" if at is None else f"{classes[at] if classes else at} ({task.confidence:.2f})"
        table.add_row(task.item, shown, task.payload or "")
    return table


def _nothing(status: Status) -> str:
    if status.done:
        return f"Nothing is left to ask: {status.answered} answers" + (
            f" of a budget of {status.budget}." if status.budget else "."
        )
    return f"Nothing for you now: {status.open} opinions are wanted, {status.leased} are leased to others."


@click.command("tell")
@session
@click.argument("answers", nargs=-1, metavar="[ITEM=LABEL]...")
@click.option(
    "--from", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CSV, JSONL, Parquet."
)
@click.option("--note", help="A remark that is kept with these answers.")
@annotator
@as_json
def tell(
    session: str, answers: tuple[str, ...], file: Path | None, note: str | None, annotator: str, as_json: bool
) -> None:
    """Answers: ITEM=LABEL, where LABEL is a class name or number, outside, right, wrong or skip. All or nothing.

    \b
    Example:  opcal tell ward3 scan17=pneumonia scan4=normal
              opcal tell ward3 --from answers.csv
    """
    if bool(answers) == (file is not None):
        raise click.UsageError("pass ITEM=LABEL, or --from a file")
    with opened(session) as found:
        if file is not None:
            from opcal.session.interchange import read

            told = read(file, found, annotator)
        else:
            told = [given(text, found, annotator, note) for text in answers]
        receipts = found.record(told)
        done = found.status()
    if as_json:
        click.echo(json.dumps([asdict(receipt) for receipt in receipts]))
    else:
        left = "" if done.budget is None else f" of {done.budget}"
        click.echo(f"{len(receipts)} stored. {done.answered}{left} asked and answered, {done.labelled} items labelled.")


def given(text: str, found: Session, annotator: str, note: str | None, *, arbiter: bool = False) -> Given:
    """ITEM=LABEL as an answer."""
    item, sign, label = text.rpartition("=")
    if not sign or not item:
        raise click.UsageError(f"{text!r}: expected ITEM=LABEL, for example scan17=pneumonia")
    return Given(item, annotator=annotator, note=note, arbiter=arbiter, **meaning(label, found.settings))


@click.command("undo")
@session
@click.option("--id", "answer", help="The answer's id, as `tell --json` and `export-labels` show it.")
@annotator
@as_json
def undo(session: str, answer: str | None, annotator: str, as_json: bool) -> None:
    """Take back your newest answer, or the one with that id. The log keeps both; the item is asked again.

    \b
    Example:  opcal undo ward3
    """
    with opened(session) as found:
        receipt = found.undo(annotator, answer)
        text = _undone(receipt, found)
    click.echo(json.dumps(asdict(receipt)) if as_json else text)


def _undone(receipt: Receipt, found: Session) -> str:
    return f"Taken back: {receipt.item}={said(receipt.label, found.settings)} by {receipt.annotator}."


@click.command("status")
@session
@as_json
def status(session: str, as_json: bool) -> None:
    """Where a session stands: asked, answered, open, by whom.

    \b
    Example:  opcal status ward3 --json
    """
    with opened(session) as found:
        at = found.status()
    click.echo(json.dumps(asdict(at)) if as_json else _readable(at))


def _readable(at: Status) -> str:
    budget = "no budget" if at.budget is None else f"budget {at.budget}"
    lines = [
        f"Session {at.name}: {at.items:,} items, {budget}",
        f"  asked      {at.asked}",
        f"  answered   {at.answered}" + (f" and {at.extra} that nobody asked for" if at.extra else ""),
        f"  labelled   {at.labelled} items, {at.audited} of them drawn at random (audit)",
        f"  waiting    {at.open} opinions, {at.leased} of them leased",
    ]
    lines += [f"  skipped    {at.skipped}"] if at.skipped else []
    lines += [f"  disputed   {at.disputed}: see opcal resolve"] if at.disputed else []
    lines += [f"  {name:<10} {count} answers" for name, count in sorted(at.annotators.items())]
    return "\n".join([*lines, "Nothing is left to ask."] if at.done else lines)
