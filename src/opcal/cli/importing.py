"""`opcal import`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opcal.pool import Pool


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the new pool.")
@click.option(
    "--features", help='Column of lists, or a pattern of number columns such as "z_*". In an .npz: the array.'
)
@click.option("--logits", help="As --features. For a .npy file: the .npy file of the logits.")
@click.option("--confidence", help="Column, array or .npy file of the model's confidence, where there are no logits.")
@click.option("--predicted", help="Column, array or .npy file of the predicted class, where there are no logits.")
@click.option("--ids", help="Column or array of the items' ids.")
@click.option("--payload", help="Column or array of paths or texts that show an item to a person.")
@click.option("--classes", help="Class names, separated by commas, in the order of the logits.")
@click.option(
    "--on-bad", type=click.Choice(["raise", "drop"]), default="raise", show_default=True, help="Rows with NaN or inf."
)
@click.option("--json", "as_json", is_flag=True, help="Describe the new pool as JSON.")
def command(file: Path, out: Path, classes: str | None, on_bad: str, as_json: bool, **columns: str | None) -> None:
    """Make a pool from a file: .npz, .npy, .parquet, .arrow, .feather or .csv.

    An .npz file holds `features` and `logits` (or `confidence` and `predicted`), and may hold `ids`, `payload`,
    `classes`, `head_weight` and `head_bias`. Columns of the usual names (features or feature_0, feature_1, …; logits or
    logit_0, …; confidence, predicted, id, payload) are found by themselves. Other columns are kept with the items.

    \b
    Example:  opcal import outputs.parquet --features "z_*" --logits "logit_*" --ids scan --out pool
    """
    options: dict[str, Any] = {name: value for name, value in columns.items() if value is not None}
    if classes is not None:
        options["classes"] = [name.strip() for name in classes.split(",")]
    if file.suffix.lower() == ".npy":
        _refuse_columns(file, options)
    pool = Pool.from_file(file, on_bad=on_bad, **options)
    pool.save(out)
    if as_json:
        about = {"pool": str(out), "items": len(pool), "features": pool.features.shape[1], "classes": pool.n_classes}
        click.echo(json.dumps(about | {"mean_confidence": float(pool.confidence.mean())}))
    else:
        click.echo(f"{out}: {pool!r}, mean confidence {pool.confidence.mean():.3f}")


def _refuse_columns(file: Path, options: dict[str, Any]) -> None:
    for name in ("features", "ids", "payload"):
        if name in options:
            raise click.UsageError(f"--{name} names a column, but {file.name} is the features and nothing else")
