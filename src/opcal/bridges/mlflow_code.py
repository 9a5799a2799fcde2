"""The model that MLflow runs: this file is copied into the model's folder and read there."""

from __future__ import annotations

from typing import Any

import mlflow.pyfunc
from mlflow.models import set_model

import opcal


class OpcalModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    def load_context(self, context: Any) -> None:
        self.artifact = opcal.load(context.artifacts["artifact"])

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        pool = opcal.Pool.from_table(model_input)
        self.artifact.manifest.layout.refuse_other(pool)
        judged = self.artifact.judged(pool.outputs)
        names = ("confidence", "sd", "above", "act", "outside")
        return pd.DataFrame({name: getattr(judged, name) for name in names})


set_model(OpcalModel())
