"""The model that MLflow runs: this file is copied into the model's folder and read there."""

from __future__ import annotations

from typing import Any

import mlflow.pyfunc
from mlflow.models import set_model

import opcal


class OpcalModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    def load_context(self, context: Any) -> None:
        self.artifact = opcal.load(context.artifacts["artifact"])

    # Without type hints: MLflow takes them for a schema.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        import pandas as pd

        pool = opcal.Pool.from_table(model_input)
        self.artifact.manifest.layout.refuse_other(pool)
        judged = self.artifact.judged(pool.outputs)
        names = ("confidence", "sd", "above", "act", "outside")
        return pd.DataFrame({name: getattr(judged, name) for name in names})


set_model(OpcalModel())
