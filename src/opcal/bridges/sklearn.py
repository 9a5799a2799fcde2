"""A scikit-learn classifier around the user's fitted one: `predict` unchanged, honest `predict_proba`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from opcal.calibrator import OperationalCalibrator
from opcal.core.posterior import Posterior
from opcal.errors import InvalidInput, LengthMismatch
from opcal.pool import Pool

LEAST = 1e-12


class OperationalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate a fitted classifier in the field where it is used.

    `fit(X, y, labelled=mask)` takes field items, of which those in the mask have a true label in y (all, by default);
    the others are looked at unlabelled. `representation(X)` gives the features [n, d]; by default X itself, or all
    steps of a pipeline but the last. The estimator is never refitted, and `predict` is its own.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        representation: Callable[[Any], ArrayLike] | None = None,
        method: Any = "auto",
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.representation = representation
        self.method = method
        self.random_state = random_state

    calibrator_: OperationalCalibrator
    classes_: NDArray[Any]

    def fit(self, X: Any, y: ArrayLike, labelled: ArrayLike | None = None) -> Self:
        check_is_fitted(self.estimator)
        self.classes_ = np.asarray(self.estimator.classes_)
        pool, answers = self._pool(X), np.asarray(y)
        if len(answers) != len(pool):
            raise LengthMismatch(f"y has {len(answers)} entries for {len(pool)} items: pass one for each")
        at = np.flatnonzero(np.ones(len(pool), bool) if labelled is None else np.asarray(labelled))
        index = {label: i for i, label in enumerate(self.classes_.tolist())}
        # A label that the classifier does not know is outside its classes: its prediction is wrong.
        told = np.array([index.get(label, -1) for label in answers[at].tolist()], dtype=np.intp)
        made = OperationalCalibrator(self.method, random_state=self.random_state)
        self.calibrator_ = made.fit(pool, at, labels=told)
        self.n_features_in_ = getattr(self.estimator, "n_features_in_", pool.features.shape[1])
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The estimator's own."""
        found: NDArray[Any] = self.estimator.predict(X)
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The predicted class gets the calibrated confidence, the others share the rest as the estimator has it."""
        check_is_fitted(self, "calibrator_")
        pool = self._pool(X)
        p = np.asarray(self.estimator.predict_proba(X), np.float64)
        rows, c = np.arange(len(pool)), self.calibrator_.confidence(pool)
        others = np.maximum(p, LEAST)
        others[rows, pool.predicted] = 0
        others *= ((1 - c) / others.sum(1))[:, None]
        others[rows, pool.predicted] = c
        return others

    def posterior(self, X: Any) -> Posterior:
        """The confidence with its own uncertainty."""
        check_is_fitted(self, "calibrator_")
        return self.calibrator_.posterior(self._pool(X))

    def _pool(self, X: Any) -> Pool:
        p = np.asarray(self.estimator.predict_proba(X), np.float64)
        logits = np.log(np.maximum(p, LEAST))
        index = {label: i for i, label in enumerate(self.classes_.tolist())}
        predicted = np.array([index[label] for label in self.estimator.predict(X).tolist()])
        if (logits[np.arange(len(p)), predicted] < logits.max(1)).any():
            raise InvalidInput(
                f"{type(self.estimator).__name__} predicts another class than its likeliest: such a classifier has no "
                "confidence to calibrate"
            )
        return Pool.from_arrays(self._features(X), logits)

    def _features(self, X: Any) -> Any:
        if self.representation is not None:
            return self.representation(X)
        steps = getattr(self.estimator, "steps", None)
        found = self.estimator[:-1].transform(X) if steps and len(steps) > 1 else X
        return found.toarray() if hasattr(found, "toarray") else np.asarray(found)
