"""A saved calibrator: scores any outputs of the same model, and says what it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from opcal import costs as worth
from opcal._threads import one_thread
from opcal.artifact import container
from opcal.artifact.gains import Gains, stored_gains
from opcal.artifact.manifest import Manifest, current
from opcal.artifact.scorers import ROOTS, Scorer
from opcal.artifact.tree import Decoder
from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs, loss_from_threshold
from opcal.core.fence import Fence, fenced
from opcal.core.method import BoolArray, FloatArray, Outputs
from opcal.core.posterior import Posterior
from opcal.errors import ArtifactError, InvalidInput
from opcal.pool import Pool

HIGHEST = 1 - 1e-9
"""Of thresholds that a loss belongs to."""


@dataclass(frozen=True)
class Judged:
    """One number an item."""

    confidence: FloatArray
    sd: FloatArray
    above: FloatArray
    """P(confidence >= threshold)."""
    act: BoolArray
    """Whether acting pays: confidence >= threshold."""
    outside: BoolArray
    """Outside all that was seen: confidence is at most ½ there, whatever the method says."""


@dataclass(frozen=True, eq=False, repr=False)
class Artifact:
    """What `opcal.load` gives: `confidence`, `posterior`, `confidence_one`, and `manifest` with all that is known."""

    manifest: Manifest
    scorer: Scorer
    fence: Fence | None
    digest: str
    """Names this artefact in logs and metrics: SHA-256 of its manifest, which holds that of its arrays."""
    signer: str | None = None
    gains: Gains | None = None
    """Where the calibrator's costs were a matrix."""

    @property
    def threshold_(self) -> float:
        """The confidence from which you act."""
        return self.manifest.threshold

    @property
    def costs_(self) -> CostMatrix | float:
        """The calibrator's own costs; where it had none, the loss for which its threshold is the right one."""
        if self.gains is not None:
            return self.gains.matrix
        own = self.manifest.costs
        return loss_from_threshold(min(self.threshold_, HIGHEST)) if own is None else own

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.manifest.classes

    def posterior(self, pool: Pool) -> Posterior:
        """As `OperationalCalibrator.posterior`, to the bit."""
        self._refuse(pool)
        return self.judge(pool.outputs)

    def confidence(self, pool: Pool) -> FloatArray:
        """Calibrated confidence of every prediction in a pool of the same model, [N] in [0, 1]."""
        self._refuse(pool)
        with one_thread():
            return self.scorer.mean(pool.outputs)

    def _refuse(self, pool: Pool) -> None:
        if not isinstance(pool, Pool):
            raise InvalidInput(f"pool is a {type(pool).__name__}: expected an opcal.Pool")
        self.manifest.layout.refuse_other(pool)

    def judge(self, rows: Outputs) -> Posterior:
        """`posterior` of rows that are known to have the right layout."""
        with one_thread():
            return self.scorer.predict(rows)

    def outside(self, pool: Pool) -> BoolArray:
        """Which items lie outside all that was seen when the artefact was made, [N]."""
        self.manifest.layout.refuse_other(pool)
        return self._outside(pool.outputs)

    def _outside(self, rows: Outputs) -> BoolArray:
        with one_thread():
            return np.zeros(len(rows), bool) if self.fence is None else self.fence.outside(rows.features)

    def judged(self, rows: Outputs, threshold: float | None = None) -> Judged:
        """What `opcal score` and `opcal serve` answer: as `posterior`, but never sure of items outside."""
        at = self.threshold_ if threshold is None else threshold
        outside = self._outside(rows)
        found = fenced(self.judge(rows), outside)
        return Judged(found.mean, found.sd, found.above(at), found.mean >= at, outside)

    def decisions(
        self, pool: Pool, costs: CostMatrix | Costs | float | None = None, *, judged: Judged | None = None
    ) -> worth.Decisions:
        """What to do with each item, by expected gain; by the artefact's own costs where none are given.

        An item outside all that was seen counts as wrong, so that nobody acts on it. `judged` is what `judged` gave
        for these rows, where it is known. Capacities hold for this pool.
        """
        self._refuse(pool)
        found = self.judged(pool.outputs) if judged is None else judged
        given = self.costs_ if costs is None else costs
        return worth.decisions(given, pool, np.where(found.outside, 0.0, found.confidence))

    def confidence_one(
        self,
        features: ArrayLike,
        logits: ArrayLike | None = None,
        *,
        confidence: float | None = None,
        predicted: int | None = None,
    ) -> float:
        """Calibrated confidence of one prediction, for a hot path: features [d] and logits [K], or both others."""
        row = self.manifest.layout.one(features, logits, confidence, predicted)
        with one_thread():
            return float(self.scorer.mean(row)[0])

    def __repr__(self) -> str:
        return f"Artifact({self.manifest.method}, {self.manifest.layout}, {self.digest[:12]})"


def load(path: str | Path, *, trusted: str | Path | None = None) -> Artifact:
    """The calibrator in an .opcal file; with `trusted`, a PEM file, only where that Ed25519 key has signed it.

    Nothing in the file is executed or imported. Whatever is wrong with it is an `ArtifactError`.
    """
    place = Path(path)
    contents = container.read(place, trusted)
    try:
        stored = current(contents.manifest, str(place))
        manifest, decode = Manifest.from_json(stored), Decoder(contents.arrays)
        scorer = decode(stored["scorer"])
        fence = decode(stored["fence"])
        if type(scorer) not in ROOTS or type(fence) not in (Fence, type(None)):
            raise ValueError("it holds no method")
        gains = stored_gains(stored, decode, manifest)
        artifact = Artifact(manifest, scorer, fence, contents.digest, contents.signer, gains)
        _try_out(artifact, decode.sizes)
    except ArtifactError:
        raise
    except Exception as error:  # what a broken description breaks cannot be foreseen
        why = str(error)[:200] or type(error).__name__
        raise ArtifactError(f"{place} is broken ({why}): export it again") from error
    return artifact


def _try_out(artifact: Artifact, sizes: dict[str, int]) -> None:
    """Score two made-up rows: a description that does not hold together fails here and not in production."""
    layout = artifact.manifest.layout
    if sizes.get("d", layout.features) != layout.features:
        raise ValueError("its arrays are of another number of features than its manifest says")
    if layout.classes is not None and sizes.get("K", layout.classes) != layout.classes:
        raise ValueError("its arrays are of another number of classes than its manifest says")
    with np.errstate(all="ignore"):
        found = artifact.judge(layout.made_up())
        artifact.judged(layout.made_up())
    if not all(((v >= 0) & (v <= 1)).all() for v in (found.mean, found.sd)):
        raise ValueError("it gives confidences outside [0, 1]")
