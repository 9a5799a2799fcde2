"""`opcal export`, `inspect` and `score`: a calibrator leaves its session and works."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any

import click

from opcal.artifact import Artifact, load
from opcal.calibrator import OperationalCalibrator
from opcal.cli.assessing import costs_option, read_costs
from opcal.cli.progress import counting, working
from opcal.cli.sessions import as_json, opened, session

FILE = click.Path(dir_okay=False, path_type=Path)
artifact = click.argument("artifact", type=FILE, metavar="X.opcal")
trusted = click.option("--trusted", type=FILE, help="PEM file of the Ed25519 key that must have signed it.")


@click.command("export")
@session
@click.option("--out", type=FILE, help="The artefact to write.")
@click.option("--onnx", type=FILE, help="Write it as an ONNX model too (or only).")
@click.option("--behind", type=FILE, help="With --onnx: your own ONNX model, to be joined in front.")
@click.option("--features", help="With --behind: the output, or any value inside, that holds the features.")
@click.option("--logits", help="With --behind: the output that holds the logits. [default: the first]")
@costs_option
@click.option("--sign", type=FILE, help="PEM file with the Ed25519 private key to sign it with.")
@as_json
def export(session: str, out: Path | None, onnx: Path | None, sign: Path | None, as_json: bool, **options: Any) -> None:
    """Write what is needed to score: an .opcal file, and an ONNX model where you ask for one.

    With --costs the file holds these costs instead of the session's, and `/decide` goes by them.

    \b
    Example:  opcal export ward3 --out ward3.opcal
              opcal export ward3 --out ward3.opcal --onnx both.onnx --behind model.onnx --features z
    """
    if out is None and onnx is None:
        raise click.UsageError("pass --out X.opcal, --onnx X.onnx or both")
    if options["behind"] is not None and onnx is None:
        raise click.UsageError("--behind needs --onnx")
    from opcal.artifact import save
    from opcal.artifact.figures import held_out_figures
    from opcal.artifact.saving import artifact_of

    written: list[Path] = []
    with working("fitting"), opened(session) as found:
        calibrator = with_costs(found.calibrator(), options["costs_file"])
        if out is not None:
            written.append(save(calibrator, out, key=sign, audit=held_out_figures(calibrator)))
    if onnx is not None:
        from opcal.artifact.onnx import export_onnx, join

        made = artifact_of(calibrator) if out is None else load(out)
        if (model := options["behind"]) is None:
            written.append(export_onnx(made, onnx))
        else:
            written.append(join(made, model, onnx, features=options["features"], logits=options["logits"]))
    if as_json:
        click.echo(json.dumps([{"file": str(file), "bytes": file.stat().st_size} for file in written]))
        return
    for file in written:
        click.echo(f"{file}: {file.stat().st_size:,} bytes")
    click.echo(f"Next: opcal inspect {out}" if out else "Inputs and outputs are named in docs/production.md.")


def with_costs(calibrator: OperationalCalibrator, file: Path | None) -> OperationalCalibrator:
    """A calibrator that others do not share, with the costs in a file."""
    if file is None:
        return calibrator
    made = copy(calibrator)
    made.costs = read_costs(file, calibrator.pool_)
    return made


@click.command("inspect")
@artifact
@trusted
@as_json
def inspect(artifact: Path, trusted: Path | None, as_json: bool) -> None:
    """What an artefact is, on what it was fitted, its audit figures, its assumptions.

    \b
    Example:  opcal inspect ward3.opcal
    """
    found = load(artifact, trusted=trusted)
    about = found.manifest.as_json() | {"actions": actions(found), "digest": found.digest, "signer": found.signer}
    click.echo(json.dumps(about, indent=1) if as_json else readable(found, artifact))


def actions(found: Artifact) -> list[str]:
    """What its costs choose between."""
    return ["act", *(["reject"] if found.gains is None else found.gains.names)]


def readable(found: Artifact, path: Path) -> str:
    m = found.manifest
    names = "" if m.classes is None else f" ({', '.join(m.classes[:6])}{', …' if len(m.classes) > 6 else ''})"
    lines = [
        f"{path}: artefact of opcal {m.opcal}, method {m.method}, made {m.created}, {path.stat().st_size:,} bytes",
        f"  model      {m.layout}{names}" + "".join(f", {k} {v}" for k, v in m.model.items()),
        f"  act from   {m.threshold:g}" + (f", for a loss of {m.costs:g}" if m.costs is not None else ""),
        *([] if found.gains is None else [f"  costs      by class, of {', '.join(actions(found))}"]),
        f"  fitted on  {m.fitted.get('items', 0):,} items and {m.fitted.get('answers', 0):,} answers, "
        f"{m.fitted.get('right', 0):,} of them right predictions",
        *(f"  audit      {name.replace('_', ' ')}: {_figure(value)}" for name, value in m.audit.items()),
        *(f"  assumes    {text}" for text in m.assumptions),
        f"  signed     {'no' if found.signer is None else 'by ' + found.signer}",
        f"  digest     {found.digest}",
    ]
    return "\n".join(lines)


def _figure(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " to ".join(_figure(v) for v in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def workers(engine: str, address: str | None) -> AbstractContextManager[None]:
    """Ray's, where they are asked for; one for each processor of this machine unless a cluster is named."""
    if engine != "ray":
        return nullcontext()
    from opcal.extract import cluster

    return cluster.running(address, os.cpu_count() or 1, threads=1)


@click.command("score")
@artifact
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=FILE, help="Parquet file to write.")
@click.option("--engine", type=click.Choice(["here", "ray"]), default="here", show_default=True, help="Who computes.")
@click.option("--address", help="Address of a Ray cluster; default: one on this machine.")
@trusted
@as_json
def score(
    artifact: Path, pool: Path, out: Path, engine: str, address: str | None, trusted: Path | None, as_json: bool
) -> None:
    """Score a stored pool of any size: id, predicted, confidence, sd, above, act, outside, model_confidence.

    \b
    Example:  opcal score ward3.opcal pool --out scores.parquet
    """
    from opcal.artifact.scoring import score as run

    with workers(engine, address), counting("scoring") as seen:
        rows = run(artifact, pool, out, engine=engine, trusted=trusted, progress=seen)
    click.echo(json.dumps({"rows": rows, "out": str(out)}) if as_json else f"{out}: {rows:,} rows")
