"""`opcal certify`: above which confidence may we act, with a promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opcal import assess
from opcal.assess import keeping
from opcal.assess.region import Region
from opcal.calibrator import OperationalCalibrator
from opcal.cli.progress import working
from opcal.cli.sessions import annotator, as_json, opened, session
from opcal.errors import InvalidInput
from opcal.session import Given, Session
from opcal.session.wording import meaning

REGION = "region.npz"
CERTIFICATE = "certificate.json"


@click.command("certify")
@session
@click.argument("answers", nargs=-1, metavar="[ITEM=LABEL]...")
@click.option("--error", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Most wrong among accepted.")
@click.option("--recall", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="With --of: least found.")
@click.option("--of", help="The class of --recall.")
@click.option("--gain", type=float, help="Least mean gain of accepted items, at the session's costs.")
@click.option(
    "--about", type=click.Choice(["pool", "field"]), default="pool", show_default=True, help="Of which items."
)
@click.option("--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Chance of a false promise.")
@click.option("-n", "n", type=click.IntRange(min=1), default=60, show_default=True, help="Fresh labels to ask for.")
@click.option("--more", type=click.IntRange(min=1), help="Ask for so many more in the same region.")
@click.option("--from", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Answers, a file.")
@click.option("--now", is_flag=True, help="Test with the answers that are there: those skipped so far count as wrong.")
@click.option("--new", is_flag=True, help="Give up the region in the session and make another.")
@annotator
@as_json
def command(session: str, answers: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """The threshold with a guarantee: freeze a region, label fresh items drawn inside it, test once.

    The first call freezes the region and lists the items to label, beyond the session's budget. Answer them here, with
    `opcal tell` or on the page; when all are answered, the next call tests. It may take any number of calls and days.

    \b
    Example:  opcal certify ward3 --error 0.05 --delta 0.1 -n 40
              opcal certify ward3 scan17=pneumonia scan4=normal
    """
    with working("certifying"), opened(session) as found:
        region, made = _region(found, options)
        if options["more"]:
            region.ask(options["more"])
            keeping.save(region, made, found.folder / REGION)
        _record(found, answers, options)
        cal = found.calibrator()
        waiting = [cal.pool_.id_of(i) for i in region.asked if i not in _labels(cal)]
        certificate = None
        if not waiting or options["now"]:
            certificate = _test(found, cal, region, made)
    if as_json:
        told = None if certificate is None else certificate.as_dict()
        click.echo(json.dumps({"to_label": waiting, "asked": len(region.asked), "certificate": told}))
    else:
        click.echo(_said(session, region, waiting, certificate))


def _region(found: Session, options: dict[str, Any]) -> tuple[Region, dict[str, Any]]:
    """The one in the session, or a new one with its items asked."""
    file = found.folder / REGION
    wanted = {name: options[name] for name in ("error", "recall", "of", "gain") if options[name] is not None}
    if file.exists() and not options["new"]:
        region, made = keeping.load(found.calibrator(), file)
        differs = [name for name, value in wanted.items() if _class(found, name, value) != made.get(name)]
        delta = options["delta"]
        if differs or (delta is not None and delta != made["delta"]):
            name = differs[0] if differs else "delta"
            raise InvalidInput(
                f"--{name} differs from the region that is being tested ({_made(made)}): leave it out to go on with "
                "that one, or start another with --new, which needs new labels"
            )
        return region, made
    wanted = wanted or {"error": 0.05}
    wanted = {name: _class(found, name, value) for name, value in wanted.items()}
    region = assess.region(found.calibrator(), about=options["about"], **wanted)
    region.ask(options["n"])
    made = wanted | {"about": options["about"], "delta": options["delta"] or 0.1, "costs": found.settings.costs}
    keeping.save(region, made, file)
    (found.folder / CERTIFICATE).unlink(missing_ok=True)
    return region, made


def _class(found: Session, name: str, value: Any) -> Any:
    """`--of 3` is a number where the classes have no names."""
    return int(value) if name == "of" and found.settings.classes is None and str(value).isdigit() else value


def _made(made: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in made.items() if value is not None)


def _record(found: Session, answers: tuple[str, ...], options: dict[str, Any]) -> None:
    given = []
    for text in answers:
        item, sign, label = text.rpartition("=")
        if not sign or not item:
            raise click.UsageError(f"{text!r}: expected ITEM=LABEL, for example scan17=pneumonia")
        given.append(Given(item, annotator=options["annotator"], **meaning(label, found.settings)))
    if options["file"] is not None:
        from opcal.session.interchange.checking import read

        given += read(options["file"], found, options["annotator"])
    if given:
        found.record(given)


def _labels(cal: OperationalCalibrator) -> dict[int, int]:
    return dict(zip(cal.answers_.positions.tolist(), cal.answers_.labels.tolist(), strict=True))


def _test(found: Session, cal: OperationalCalibrator, region: Region, made: dict[str, Any]) -> assess.Certificate:
    known = _labels(cal)
    region.answers = {i: known[i] for i in region.asked if i in known}
    certificate = assess.certify(region, [], labels=[], delta=made["delta"])
    keeping.save(region, made, found.folder / REGION)
    (found.folder / CERTIFICATE).write_text(json.dumps(certificate.as_dict(), indent=1), encoding="utf-8")
    return certificate


def _said(session: str, region: Region, waiting: list[str], certificate: assess.Certificate | None) -> str:
    if certificate is not None:
        assumptions = "\n".join(f"  {line}" for line in certificate.assumptions)
        more = f"\nAsk for more:  opcal certify {session} --more {certificate.more}" if certificate.more else ""
        return f"{certificate.sentence}{more}\nIt rests on this:\n{assumptions}"
    if not region.asked:
        return f"{region}\nNo item is sure enough for this promise: ask for less, or label more to learn first."
    done = len(region.asked) - len(waiting)
    shown = ", ".join(waiting[:20]) + (f" and {len(waiting) - 20} more" if len(waiting) > 20 else "")
    return (
        f"{region}\n{done} of {len(region.asked)} fresh labels are there. To label: {shown}\n"
        f"Answer:  opcal certify {session} {waiting[0]}=LABEL …   and when all are there:  opcal certify {session}"
    )
