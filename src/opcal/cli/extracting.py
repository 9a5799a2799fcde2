"""`opcal extract`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Size(click.ParamType[Any]):
    """HEIGHTxWIDTH, or one number for both."""

    name = "HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().split("x")
        if len(parts) > 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is no size: write 224, or 224x320 for height and width", param, ctx)
        return int(parts[0]), int(parts[-1])


class Numbers(click.ParamType[Any]):
    name = "A,B,C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of numbers: write 0.485,0.456,0.406", param, ctx)


class OrAuto(click.ParamType[Any]):
    """A whole number of at least `least`, or "auto"."""

    name = "N|auto"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "auto":
            return "auto"
        if not str(value).isdigit() or int(value) < self.least:
            self.fail(f"{value!r} is neither a whole number of at least {self.least} nor auto", param, ctx)
        return int(value)


@click.command("extract")
@click.argument("model")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the new pool.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run was stopped; the result is the same bytes.")
@click.option("--restart", is_flag=True, help="Throw away what an earlier run left, and begin again.")
@click.option("--batch-size", type=OrAuto(1), default="auto", show_default=True, help="Items in a forward pass.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many items.")
@click.option("--workers", type=OrAuto(0), default="auto", show_default=True, help="Loader threads.")
@click.option(
    "--on-bad",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Broken images, missing texts, NaN: stop, or leave them out and list them.",
)
@click.option("--classes", help="Class names, separated by commas, in the order of the model's outputs; or @FILE.")
@click.option("--layer", help="The layer whose input is the representation; found by itself where left out.")
@click.option("--no-head", is_flag=True, help="Do not ask that the logits follow from the features by a last layer.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Half precision is quicker and moves the features a little; by how much is said.",
)
@click.option(
    "--channels-last/--no-channels-last", default=None, help="Memory order of images; default: with half precision."
)
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the forward pass.")
@click.option("--size", type=Size(), help="Resize images to this height and width.")
@click.option("--crop", is_flag=True, help="Resize the shorter side and cut out the middle, instead of stretching.")
@click.option("--mean", type=Numbers(), help="Taken from each channel in [0, 1].")
@click.option("--std", type=Numbers(), help="Each channel is divided by it.")
@click.option("--channels", type=click.Choice(["1", "3"]), default="3", show_default=True, help="Grey or colour.")
@click.option("--preprocess", metavar="FILE.py:NAME", help="Your own function from an item to the model's input.")
@click.option("--processor", type=click.Path(path_type=Path), help="Folder of a tokenizer or image processor.")
@click.option("--max-length", type=click.IntRange(min=1), help="Cut texts to so many tokens.")
@click.option("--trust", multiple=True, metavar="TYPE", help="A type of a skops file that may be loaded.")
@click.option("--text", help="The column that holds the text.")
@click.option("--image", help="The column that holds the image: a path or the file's bytes.")
@click.option("--inputs", help='The columns that are numbers for the model, such as "x_*" or "age,pressure".')
@click.option("--id", help="The column of the items' ids.")
@click.option("--columns", help="Columns to keep with the items; default: all plain ones.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--address", help="Address of a Ray cluster; default: one on this machine.")
@click.option("--partitions", type=click.IntRange(min=1), help="In how many parts Ray takes the data.")
@click.option("--json", "as_json", is_flag=True, help="Describe the new pool as JSON.")
def command(model: str, data: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Make a pool from a model and field data: features and logits of each item, in one forward pass.

    MODEL is file.py:factory (a function of yours that returns a torch module, a scikit-learn estimator, a pair of one
    of these and a preprocessing function, or itself takes a batch and returns features and logits), a Hugging Face
    folder, an .onnx file, an exported program (.pt2), TorchScript (.pt), or a scikit-learn pipeline (.skops).
    DATA is a folder of images, or a file or folder of .csv, .jsonl, .parquet or .arrow, or .npy or .npz.
    The features are the input of the model's last linear layer, which is found by itself and shown.

    \b
    Example:  opcal extract model.py:make photos/ --size 224 --out pool
              opcal extract ./my-text-model reviews.csv --text review --out pool
              opcal extract model.onnx photos/ --out pool --resume
    """
    from opcal.extract import extract

    console = Console(stderr=True)
    bar = _bar(console)
    task = bar.add_task("extracting", total=None, rate="")

    def progress(done: int, total: int | None) -> None:
        bar.start()  # only now: what is refused before shows no bar
        speed = bar.tasks[0].speed
        bar.update(task, completed=done, total=total, rate="" if speed is None else f"{speed:,.0f} a second")

    try:
        found = extract(model, data, out=out, progress=progress, **_options(given))
    finally:
        if bar.live.is_started:
            bar.stop()
    _tell(found, console, as_json)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    given["classes"] = _class_names(given["classes"])
    given["head"] = not given.pop("no_head")
    given["channels"] = int(given["channels"])
    for name in ("inputs", "columns"):
        given[name] = None if given[name] is None else [part.strip() for part in given[name].split(",")]
    given["transform"] = given.pop("preprocess")
    return given


def _class_names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.startswith("@"):
        return [line.strip() for line in Path(text[1:]).read_text(encoding="utf-8").splitlines() if line.strip()]
    return [name.strip() for name in text.split(",")]


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)


def _tell(found: Any, console: Console, as_json: bool) -> None:
    about = found.about
    if as_json:
        said = {
            "pool": str(found.path),
            "items": found.items,
            "features": about.width,
            "classes": about.n_classes,
            "representation": about.representation,
            "head": about.head is not None,
            "skipped": found.n_skipped,
            "resumed_at": found.resumed_at,
            "seconds": round(found.seconds, 3),
            "notes": list(found.notes),
        }
        click.echo(json.dumps(said))
        return
    for item in found.skipped[:10]:
        console.print(f"skipped {item.id}: {item.reason}", soft_wrap=True, markup=False, highlight=False)
    if found.n_skipped > 10:
        console.print(f"… and {found.n_skipped - 10:,} more")
    head = "head(features) = logits, checked" if about.head is not None else "no head"
    click.echo(f"{found.path}: {found.items:,} items, {about.width} features, {about.n_classes} classes")
    click.echo(f"representation: {about.representation}; {head}")
    for note in found.notes:
        click.echo(note)
