"""Gradient boosting on what is known of a prediction without its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from opcal.baselines.base import Baseline, Constant, Fitted, Told, succession, whole
from opcal.core.embedding import class_logits, n_classes
from opcal.core.method import FloatArray, Outputs


class GradientBoosting(Baseline):
    """Boosted trees of "was it right?" on confidence, margin, entropy and the first principal components of z.

    scikit-learn's, shallow and slow: depth 2, rate .05, half of the rows a tree; a tenth of the labels stops it early.
    """

    def __init__(self, *, n_components: int = 8, n_estimators: int = 200, random_state: int = 0) -> None:
        self.n_components = n_components
        self.n_estimators = n_estimators
        self.random_state = random_state

    def _learn(self, told: Told) -> Fitted:
        look = look_at(told.pool, whole("n_components", self.n_components, 0))
        if told.correct.all() or not told.correct.any() or min(told.correct.sum(), (~told.correct).sum()) < 2:
            return Constant(succession(told.correct))
        return Boosted(look, self._model(len(told)).fit(look(told.rows), told.correct))

    def _model(self, n: int) -> Any:
        from sklearn.ensemble import GradientBoostingClassifier

        stop = {"n_iter_no_change": 20, "validation_fraction": 0.1} if n >= 100 else {}
        trees = whole("n_estimators", self.n_estimators, 1)
        return GradientBoostingClassifier(
            n_estimators=trees if stop else min(trees, 40),
            learning_rate=0.05,
            max_depth=2,
            subsample=0.5,
            min_samples_leaf=min(5, max(1, n // 8)),
            random_state=self.random_state,
            **stop,
        )


@dataclass(frozen=True)
class Look:
    """Rows to [N, 3 + r]: confidence, margin of the best over the second class, entropy, components of z."""

    classes: int
    centre: FloatArray  # [d]
    components: FloatArray  # [d, r]

    def __call__(self, rows: Outputs) -> FloatArray:
        h, _ = class_logits(rows, self.classes)
        logs = log_softmax(h, axis=1)
        p = np.exp(logs)
        best = np.partition(p, -2, axis=1)[:, -2:]
        entropy = -(p * logs).sum(1)
        z = (np.asarray(rows.features, np.float64) - self.centre) @ self.components
        return np.column_stack([rows.confidence, best[:, 1] - best[:, 0], entropy, z])


def look_at(pool: Outputs, components: int) -> Look:
    z = np.asarray(pool.features, np.float64)
    middle = z.mean(0)
    _, _, vectors = np.linalg.svd(z - middle, full_matrices=False)
    return Look(n_classes(pool), middle, vectors[:components].T)


@dataclass(frozen=True)
class Boosted:
    look: Look
    model: Any

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = self.model.predict_proba(self.look(rows))[:, 1]
        return found
