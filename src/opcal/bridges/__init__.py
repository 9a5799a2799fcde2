"""Doors to what people already run: PyTorch, scikit-learn, Hugging Face, MLflow. Each is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opcal.errors import MissingDependency

if TYPE_CHECKING:
    from opcal.bridges.huggingface import CalibratedPipeline
    from opcal.bridges.mlflow import save_mlflow
    from opcal.bridges.sklearn import OperationalClassifier
    from opcal.bridges.torch import CalibratedModule

__all__ = ["CalibratedModule", "CalibratedPipeline", "OperationalClassifier", "save_mlflow"]

_HOME = {
    "CalibratedModule": "torch",
    "CalibratedPipeline": "huggingface",
    "OperationalClassifier": "sklearn",
    "save_mlflow": "mlflow",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opcal.bridges' has no attribute {name!r}")
    try:
        return getattr(import_module(f"opcal.bridges.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        raise MissingDependency(f"{name} needs {error.name}: pip install {error.name}") from error


def __dir__() -> list[str]:
    return sorted(__all__)
