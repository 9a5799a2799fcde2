"""scikit-learn: what goes into the last step is the representation; a linear last step or a network has a head."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.errors import DataError, MissingDependency, ModelError
from opcal.extract.models.files import hash_of
from opcal.extract.models.options import RunOptions
from opcal.extract.rows import About, FloatArray, Pair
from opcal.extract.sources.choose import Wants

WIDEST = 16_384
"""More features than this (a bag of words) would make a pool of many gigabytes: they are to be reduced first."""
HIDDEN: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
}


@dataclass(frozen=True)
class _Ending:
    """How the last step works: features and logits of what goes into it."""

    told: str
    split: Callable[[Any], Pair]
    head: Pair | None


class SklearnModel:
    def __init__(self, estimator: Any, options: RunOptions, name: str | None = None, digest: str = "") -> None:
        self.options, self.notes, self._digest = options, list[str](), digest
        self.name = name or type(estimator).__name__
        self._estimator = estimator
        self._before, self._last = _steps(estimator, options.layer)
        if not hasattr(self._last, "classes_"):
            raise ModelError(
                f"{type(self._last).__name__} has no classes: fit the pipeline; its last step must classify"
            )
        self.classes = _names(self._last.classes_)
        names = getattr(estimator, "feature_names_in_", None)
        self.wants = Wants(_kind(estimator), None if names is None else tuple(str(name) for name in names))
        self._ending: _Ending | None = None

    @classmethod
    def load(cls, path: Path, options: RunOptions) -> SklearnModel:
        try:
            import skops.io
        except ImportError as error:
            raise MissingDependency("a .skops file needs skops: pip install 'opcal[skops]'") from error
        try:
            unknown = [kind for kind in skops.io.get_untrusted_types(file=path) if kind not in options.trust]
            if unknown:
                ways = " ".join(f"--trust {kind}" for kind in unknown)
                raise ModelError(f"{path} holds types that skops does not know: if you trust the file, pass {ways}")
            loaded = skops.io.load(path, trusted=list(options.trust))
        except ModelError:
            raise
        except Exception as error:  # a broken archive breaks its reader in every way
            raise ModelError(f"{path} cannot be loaded as a skops file ({error}): save it again") from error
        return cls(loaded, options, path.name, hash_of(path))

    def digest(self) -> str:
        if self._digest:
            return self._digest
        found = hashlib.sha256(repr(self._estimator).encode())
        for name, value in sorted(vars(self._last).items()):
            arrays = value if isinstance(value, list) else [value]
            for array in arrays:
                if isinstance(array, np.ndarray) and array.dtype.kind in "fiub":
                    found.update(name.encode() + array.tobytes())
        return found.hexdigest()[:32]

    def prepare(self, values: Any) -> Any:
        if self.options.collate is not None:
            return self.options.collate(list(values))
        if self.options.transform is not None:
            values = [self.options.transform(value) for value in values]
        if isinstance(values, pa.Table):
            return _frame(values)
        return values if hasattr(values, "shape") or (values and isinstance(values[0], str)) else np.asarray(values)

    def examine(self, batch: Any) -> tuple[About, Pair]:
        given = self._transformed(batch)
        self._ending = _ending_of(self._last, given)
        features, logits = self.run(batch)
        told = f"{self._ending.told} ({type(self._last).__name__}), {features.shape[1]} numbers"
        head = self._ending.head if self.options.head else None
        return About(told, features.shape[1], logits.shape[1], head, self.classes), (features, logits)

    def _transformed(self, batch: Any) -> Any:
        try:
            for step in self._before:
                batch = step.transform(batch)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ModelError(
                f"{self.name} cannot take the data as they come ({str(error).splitlines()[0]}): name the columns with "
                "--inputs or --text as the pipeline was fitted"
            ) from error
        return batch

    def run(self, batch: Any) -> Pair:
        assert self._ending is not None, "examine comes first"
        given = self._transformed(batch)
        try:
            features, logits = self._ending.split(given)
        except ValueError as error:
            raise ModelError(
                f"{self.name} cannot take the data as they come ({str(error).splitlines()[0]}): name the columns with "
                "--inputs as the pipeline was fitted"
            ) from error
        return np.ascontiguousarray(features, np.float32), np.ascontiguousarray(logits, np.float32)

    def close(self) -> None:
        pass


def _steps(estimator: Any, layer: str | None) -> tuple[list[Any], Any]:
    steps = list(getattr(estimator, "steps", None) or [("", estimator)])
    last = steps[-1][1]
    if hasattr(last, "best_estimator_"):
        last = last.best_estimator_
    if hasattr(last, "steps"):  # a pipeline within a search, or within a pipeline
        inner, final = _steps(last, None)
        return [step for _, step in steps[:-1] if _works(step)] + inner, final
    if layer is not None and layer not in (name for name, _ in steps):
        raise ModelError(f"the pipeline has no step {layer!r}: its steps are {', '.join(n for n, _ in steps)}")
    return [step for _, step in steps[:-1] if _works(step)], last


def _works(step: Any) -> bool:
    return step is not None and step != "passthrough"


def _names(classes: Any) -> tuple[str, ...]:
    if isinstance(classes, list):
        raise ModelError("the model predicts several outputs: opcal calibrates models that choose one class")
    return tuple(str(name) for name in np.asarray(classes).tolist())


def _kind(estimator: Any) -> str | None:
    """A first step that takes texts tells that the data are texts."""
    steps = getattr(estimator, "steps", None)
    first = steps[0][1] if steps else estimator
    return "texts" if hasattr(first, "analyzer") else None


def _frame(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise MissingDependency(
            "this pipeline takes columns by name, which needs pandas: pip install 'opcal[tables]'"
        ) from error


def _ending_of(last: Any, given: Any) -> _Ending:
    if hasattr(last, "coefs_") and hasattr(last, "intercepts_"):
        return _network(last)
    if hasattr(last, "coef_") and hasattr(last, "intercept_") and _is_linear(last, given):
        head = _two_rows(np.atleast_2d(_dense(last.coef_)), np.atleast_1d(last.intercept_))
        return _Ending("the input of the last step", lambda x: (_dense(x), _two(last.decision_function(x))), head)
    return _Ending("the input of the last step", lambda x: (_dense(x), _scores(last, x)), None)


def _is_linear(last: Any, given: Any) -> bool:
    """decision_function is the head's, and its softmax is what the model says, as far as it says it."""
    if not hasattr(last, "decision_function") or getattr(last, "kernel", "linear") != "linear":
        return False
    weight = np.atleast_2d(_dense(last.coef_))
    score = _two(last.decision_function(given))
    if _two_rows(weight, np.atleast_1d(last.intercept_))[0].shape[0] != score.shape[1]:
        return False
    if not hasattr(last, "predict_proba"):
        return True
    said = np.exp(score - score.max(1, keepdims=True))
    return bool(np.allclose(said / said.sum(1, keepdims=True), last.predict_proba(given), atol=1e-6))


def _network(last: Any) -> _Ending:
    """A multi-layer perceptron, run layer by layer: the features are its last hidden layer."""
    if getattr(last, "out_activation_", "softmax") == "logistic" and last.n_outputs_ > 1:
        raise ModelError("the network predicts several labels at once: opcal calibrates models that choose one class")

    def split(x: Any) -> Pair:
        hidden = _dense(x) if len(last.coefs_) == 1 else x
        for weight, bias in zip(last.coefs_[:-1], last.intercepts_[:-1], strict=True):
            hidden = HIDDEN[last.activation](np.asarray(hidden @ weight + bias))
        return hidden, _two(hidden @ last.coefs_[-1] + last.intercepts_[-1])

    head = _two_rows(last.coefs_[-1].T, last.intercepts_[-1])
    return _Ending("the last hidden layer", split, head)


def _scores(last: Any, given: Any) -> FloatArray:
    """Log-probabilities, or what the model has instead."""
    if hasattr(last, "predict_proba"):
        scores: FloatArray = np.log(np.maximum(last.predict_proba(given), 1e-12))
    elif hasattr(last, "decision_function"):
        scores = np.array(_two(last.decision_function(given)))
    else:
        raise ModelError(f"{type(last).__name__} gives neither probabilities nor a decision function")
    return _keeping(scores, np.searchsorted(last.classes_, last.predict(given)))


def _keeping(scores: FloatArray, predicted: Any) -> FloatArray:
    """The prediction stays the model's own: support vectors vote, and now and then another class scores highest."""
    for row in np.flatnonzero(scores.argmax(1) != predicted):
        scores[row, predicted[row]] = scores[row].max() + 1e-3
    return scores


def _two(scores: Any) -> FloatArray:
    """One score of class 1 becomes two columns."""
    scores = np.asarray(scores)
    scores = scores[:, None] if scores.ndim == 1 else scores
    return np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores


def _two_rows(weight: FloatArray, bias: FloatArray) -> Pair:
    if len(weight) == 1:
        weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
    return weight.astype(np.float32), np.broadcast_to(bias, len(weight)).astype(np.float32)


def _dense(values: Any) -> FloatArray:
    if values.shape[1] > WIDEST:
        raise DataError(
            f"the last step takes {values.shape[1]:,} features, more than {WIDEST:,}: put a TruncatedSVD or a "
            "projection before it, or pass a function that returns smaller features and the logits"
        )
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
