"""An artefact as an MLflow model, from code: nothing is pickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow.pyfunc

from opcal.artifact import load


def save_mlflow(artifact: str | Path, path: str | Path, **options: Any) -> Path:
    """Write an MLflow model folder that scores tables with `features` and `logits` columns (or feature_0, …).

    Its answer is a table: confidence, sd, above, act, outside. `options` go to `mlflow.pyfunc.save_model`.
    """
    load(artifact)
    place = Path(path)
    requirements = options.pop("pip_requirements", ["opcal"])
    mlflow.pyfunc.save_model(
        path=str(place),
        python_model=str(Path(__file__).parent / "mlflow_code.py"),
        artifacts={"artifact": str(artifact)},
        pip_requirements=requirements,
        **options,
    )
    _scrub(place / "MLmodel", str(Path(artifact).resolve()), str(artifact))
    return place


def _scrub(file: Path, *sources: str) -> None:
    """MLflow records where the artefact came from, a path of this machine."""
    text = file.read_text(encoding="utf-8")
    for source in sources:
        text = text.replace(f"uri: {source}", f"uri: {Path(source).name}")
    file.write_text(text, encoding="utf-8")
