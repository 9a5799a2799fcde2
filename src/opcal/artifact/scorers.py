"""What each method needs to score, and nothing else: frozen dataclasses of small arrays.

Scoring runs the very code of `core`, so that a loaded artefact gives the same bytes as the calibrator that was saved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from opcal.artifact.gains import Gains
from opcal.core import correctness, stack
from opcal.core.doubt import Doubt
from opcal.core.embedding import Embedding, FieldKernel, Places, Seen
from opcal.core.fence import Fence
from opcal.core.gp import Fitted, Kernel
from opcal.core.medoids import Clustering
from opcal.core.method import FloatArray, Learner, Outputs
from opcal.core.paper import PaperLearner
from opcal.core.posterior import Posterior
from opcal.core.prototypes import Projection, Prototypes
from opcal.core.residual import ResidualLearner, Solved
from opcal.core.softmax import Fit
from opcal.core.spread import Spread
from opcal.core.temperature import TemperatureLearner
from opcal.errors import ArtifactError


class Scorer(Protocol):
    def predict(self, rows: Outputs) -> Posterior: ...
    def mean(self, rows: Outputs) -> FloatArray:
        """`predict(rows).mean`, to the bit."""


class _NoSpread(Spread):
    def __init__(self) -> None: ...

    def directions(self, x: Seen, p: FloatArray, cooled: FloatArray) -> tuple[FloatArray, FloatArray]:
        return cooled, cooled


@dataclass(frozen=True)
class AutoScorer:
    inner: stack.Scorer

    def predict(self, rows: Outputs) -> Posterior:
        return stack.posterior(self.inner, rows)

    def mean(self, rows: Outputs) -> FloatArray:
        """Without the landmarks, which only the spread needs: half of the work."""
        s, mean = self.inner, np.empty(len(rows))
        at_rest = replace(s, spread=_NoSpread())
        for block, parts in at_rest.blocks(rows):
            mean[block] = s.mean(parts.each)
        return mean


@dataclass(frozen=True)
class CorrectnessScorer:
    inner: correctness.Scorer

    def mean(self, rows: Outputs) -> FloatArray:
        return self.predict(rows).mean

    def predict(self, rows: Outputs) -> Posterior:
        return self.inner.posterior(rows)


@dataclass(frozen=True)
class TemperatureScorer:
    classes: int
    tau: float
    sd: float

    def mean(self, rows: Outputs) -> FloatArray:
        return self.predict(rows).mean

    def predict(self, rows: Outputs) -> Posterior:
        learner = TemperatureLearner.__new__(TemperatureLearner)
        learner.classes, learner._fitted = self.classes, (self.tau, self.sd)
        return learner.predict(rows)


@dataclass(frozen=True)
class ResidualScorer:
    embedding: Embedding
    kernel: FieldKernel
    solved: Solved

    def mean(self, rows: Outputs) -> FloatArray:
        return self.predict(rows).mean

    def predict(self, rows: Outputs) -> Posterior:
        learner = ResidualLearner.__new__(ResidualLearner)
        learner.preparation = SimpleNamespace(embedding=self.embedding, kernel=self.kernel)  # type: ignore[assignment]
        learner._solved = self.solved
        return learner.predict(rows)


@dataclass(frozen=True)
class Clustered:
    """Where the clusters of the paper's method lie."""

    centre: FloatArray  # [d] float64
    points: FloatArray  # [L, d] float64, the medoids' rows, centred
    medoids: FloatArray  # [L, d], the medoids' rows as they came

    @cached_property
    def clustering(self) -> Clustering:
        own = np.arange(len(self.points))
        return Clustering(own, own, self.centre, self.points, 0.0)


@dataclass(frozen=True)
class PaperScorer:
    clusters: Clustered
    kernels: tuple[Kernel, ...]
    experts: tuple[Fitted | None, ...]
    dtype: np.dtype[Any]

    def mean(self, rows: Outputs) -> FloatArray:
        return self.predict(rows).mean

    def predict(self, rows: Outputs) -> Posterior:
        return self._learner.predict(rows)

    @cached_property
    def _learner(self) -> PaperLearner:
        return _Frozen(self)


class _Frozen(PaperLearner):
    """The paper's learner with its pool reduced to the medoids, and nothing left to estimate."""

    def __init__(self, scorer: PaperScorer) -> None:
        self._scorer = scorer
        self.field = SimpleNamespace(pool=SimpleNamespace(features=scorer.clusters.medoids))  # type: ignore[assignment]
        self.answers = ()  # type: ignore[assignment]
        vars(self)["experts"], vars(self)["dtype"] = list(scorer.experts), scorer.dtype

    @property
    def clustering(self) -> Clustering:
        return self._scorer.clusters.clustering

    def kernels(self, n: int) -> list[Kernel]:
        return list(self._scorer.kernels)


def _auto(learner: stack.AutoLearner) -> AutoScorer:
    scorer = learner.scorer
    dtype = scorer.embedding.dtype
    # Scoring casts alpha to the embedding's precision, so nothing is lost; the search's point only starts other fits.
    fits = tuple(replace(f, alpha=f.alpha.astype(dtype), search=np.empty(0)) for f in scorer.fits)
    return AutoScorer(replace(scorer, fits=fits))


def _correctness(learner: correctness.CorrectnessLearner) -> CorrectnessScorer:
    return CorrectnessScorer(learner._scorer or learner._fit())


def _temperature(learner: TemperatureLearner) -> TemperatureScorer:
    return TemperatureScorer(learner.classes, *learner.fitted)


def _residual(learner: ResidualLearner) -> ResidualScorer:
    solved = learner._solved or learner._fit()
    slim = replace(solved, base=replace(solved.base, search=np.empty(0)))
    return ResidualScorer(learner.preparation.embedding, learner.preparation.kernel, slim)


def _paper(learner: PaperLearner) -> PaperScorer:
    c, features = learner.clustering, learner.field.pool.features
    medoids = np.array(features[c.medoids])
    if medoids.dtype.itemsize < 4:
        medoids = medoids.astype(np.float32)
    kernels = tuple(learner.kernels(len(learner.answers)))
    return PaperScorer(Clustered(c.centre, c.points, medoids), kernels, tuple(learner.experts), learner.dtype)


SCORERS: dict[type[Any], tuple[str, Callable[[Any], Scorer]]] = {
    stack.AutoLearner: ("auto", _auto),
    correctness.CorrectnessLearner: ("correctness", _correctness),
    TemperatureLearner: ("temperature", _temperature),
    ResidualLearner: ("residual", _residual),
    PaperLearner: ("paper", _paper),
}
ROOTS = {AutoScorer, CorrectnessScorer, TemperatureScorer, ResidualScorer, PaperScorer}
"""What an artefact's scorer may be."""
KINDS: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in ROOTS},
    **{
        kind.__name__: kind
        for kind in (Embedding, FieldKernel, Places, Seen, Projection, Prototypes, Fit, Spread, Doubt)
    },
    **{kind.__name__: kind for kind in (Solved, Fitted, Kernel)},
    "Clustered": Clustered,
    "Fence": Fence,
    "Gains": Gains,
    "Laplace": correctness.Laplace,
    "Scorer": stack.Scorer,
    "Rightness": correctness.Scorer,
}


def scorer_of(learner: Learner) -> tuple[str, Scorer]:
    """The name of a learner's method and what it needs to score."""
    if type(learner) not in SCORERS:
        known = ", ".join(name for name, _ in SCORERS.values())
        raise ArtifactError(f"a {type(learner).__name__} cannot be saved: methods with an artefact are {known}")
    name, make = SCORERS[type(learner)]
    return name, make(learner)
