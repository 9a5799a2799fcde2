"""`opcal resolve`, `add-items`, `forget`, `backup`: what a running session needs now and then."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from opcal.cli.progress import working
from opcal.cli.sessions import annotator, as_json, given, opened, session
from opcal.pool import Pool
from opcal.session.wording import said


@click.command("resolve")
@session
@click.argument("decisions", nargs=-1, metavar="[ITEM=LABEL]...")
@annotator
@as_json
def resolve(session: str, decisions: tuple[str, ...], annotator: str, as_json: bool) -> None:
    """Items on which opinions are tied; with ITEM=LABEL, decide as the arbiter.

    \b
    Example:  opcal resolve ward3
              opcal resolve ward3 scan17=pneumonia --annotator chief
    """
    with opened(session) as found:
        found.record([given(text, found, annotator, None, arbiter=True) for text in decisions])
        left, settings = found.disagreements(), found.settings
    if as_json:
        click.echo(json.dumps([asdict(d) for d in left]))
        return
    if decisions:
        click.echo(f"{len(decisions)} decided, {len(left)} still tied.")
    elif not left:
        click.echo("No item is tied.")
    for one in left:
        opinions = ", ".join(f"{who}: {said(label, settings)}" for who, label in one.opinions)
        click.echo(f"  {one.item}  {opinions}")


@click.command("add-items")
@session
@click.argument("pool", type=click.Path(path_type=Path))
@as_json
def add_items(session: str, pool: Path, as_json: bool) -> None:
    """Append the items of another pool of the same model to a running session.

    \b
    Example:  opcal add-items ward3 pool-april
    """
    with working("writing the longer pool"), opened(session) as found:
        added = found.add_items(Pool.open(pool))
        items = found.status().items
    click.echo(json.dumps({"added": added, "items": items}) if as_json else f"{added:,} added: {items:,} items now.")


@click.command("forget")
@session
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@click.option("--older-than", metavar="DATE|90d", help="All that came in before a date, or so many days ago.")
@click.option("--column", help="With --older-than: the pool's column that holds each item's date.")
@click.option("--features", is_flag=True, help="Erase features and logits too: their labels then teach nothing more.")
@click.option("--reason", default="", help="Kept in the log.")
@annotator
@as_json
def forget(
    session: str,
    items: tuple[str, ...],
    older_than: str | None,
    column: str | None,
    features: bool,
    reason: str,
    annotator: str,
    as_json: bool,
) -> None:
    """Erase payloads, own columns and notes of items; labels, counts and the log stay.

    \b
    Example:  opcal forget ward3 scan17 --reason "patient asked"
              opcal forget ward3 --older-than 365d --column taken
    """
    if bool(items) == (older_than is not None):
        raise click.UsageError("name items, or pass --older-than")
    moment = None if older_than is None else _moment(older_than)
    with working("erasing"), opened(session) as found:
        gone = found.forget(items, older_than=moment, column=column, features=features, reason=reason, by=annotator)
    if as_json:
        click.echo(json.dumps({"forgotten": gone}))
        return
    click.echo(f"{len(gone)} items forgotten. Not the session's and still there, erase them yourself:")
    click.echo("  files that payloads named, the pool that it was started from, backups, exports")


def _moment(text: str) -> datetime:
    if days := re.fullmatch(r"(\d+) ?d(ays?)?", text.strip()):
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--older-than {text!r}: expected a date like 2026-03-31, or days like 90d") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@click.command("backup")
@session
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the copy.")
@click.option("--db", help="Put the copy's tables into this empty postgresql:// database.")
@as_json
def backup(session: str, out: Path, db: str | None, as_json: bool) -> None:
    """A copy of the session as of one moment, made while people label. It is a session like any other.

    \b
    Example:  opcal backup ward3 --out ward3-monday
    """
    with working("copying"), opened(session) as found:
        seq = found.backup(out, db=db)
    click.echo(json.dumps({"out": str(out), "events": seq}) if as_json else f"{out}: a copy up to event {seq}.")
