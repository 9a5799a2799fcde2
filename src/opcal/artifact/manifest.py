"""What an artefact says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.method import FloatArray, Outputs
from opcal.errors import ArtifactError, IncompatiblePool, InvalidArray, InvalidInput
from opcal.pool import Pool
from opcal.pool.pool import softmax_confidence

VERSION = 1
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From the description of a version to that of the next: what a later opcal adds here keeps old artefacts readable."""
MOST_FEATURES = 10**6


@dataclass(frozen=True)
class Layout:
    """The shape of the model's outputs."""

    features: int
    classes: int | None
    """Columns of the logits; None where the pool had none."""

    @classmethod
    def of(cls, pool: Pool) -> Layout:
        return cls(int(pool.features.shape[1]), None if pool.logits is None else int(pool.logits.shape[1]))

    def __str__(self) -> str:
        return f"{self.features} features and " + ("no logits" if not self.classes else f"{self.classes} classes")

    def refuse_other(self, pool: Pool) -> None:
        if Layout.of(pool) != self:
            raise IncompatiblePool(
                f"the pool has {Layout.of(pool)}, the artefact was made for {self}: "
                "pass outputs of the same model and layer"
            )

    def one(
        self, features: ArrayLike, logits: ArrayLike | None, confidence: float | None, predicted: int | None
    ) -> Outputs:
        """One item, checked."""
        z = _row("features", features, self.features)
        if self.classes is not None:
            if logits is None:
                raise InvalidInput(f"logits is missing: the artefact was made for {self}")
            h = _row("logits", logits, self.classes)
            return Outputs(z, *softmax_confidence(h), h)
        if logits is not None or confidence is None or predicted is None:
            raise InvalidInput("pass confidence= and predicted=, and no logits: the artefact was made without logits")
        if not 0 <= confidence <= 1 or predicted < 0:
            raise InvalidInput(f"confidence is {confidence}, predicted {predicted}: expected a share and a class")
        return Outputs(z, np.array([confidence], np.float64), np.array([predicted], np.intp))

    def made_up(self) -> Outputs:
        z = np.zeros((2, self.features), np.float32)
        z[1] = 1
        if self.classes is None:
            return Outputs(z, np.array([0.5, 0.9]), np.array([0, 1]))
        h = np.zeros((2, self.classes), np.float32)
        h[1, 0] = 1
        return Outputs(z, *softmax_confidence(h), h)


def _row(name: str, values: ArrayLike, width: int) -> FloatArray:
    """[1, width] in single or double precision."""
    row = np.asarray(values)
    if row.dtype.kind not in "fiu" or row.shape not in ((width,), (1, width)):
        raise InvalidArray(f"{name} is {row.dtype} of shape {row.shape}: expected {width} numbers")
    row = row.astype(np.float32 if row.dtype.kind == "f" and row.dtype.itemsize <= 4 else np.float64, copy=False)
    if not np.isfinite(row).all():
        raise InvalidArray(f"{name} holds NaN or inf")
    return row.reshape(1, width)


@dataclass(frozen=True)
class Manifest:
    """All but the arrays."""

    method: str
    layout: Layout
    threshold: float
    costs: float | None
    classes: tuple[str, ...] | None
    created: str
    """UTC, ISO."""
    opcal: str
    """Version that wrote it."""
    model: dict[str, str] = field(default_factory=dict)
    """The classifier's name and hash, where known."""
    fitted: dict[str, Any] = field(default_factory=dict)
    """On how many items, answers, of which kinds."""
    audit: dict[str, Any] = field(default_factory=dict)
    """What the labels drawn uniformly at random say."""
    assumptions: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"format": "opcal", "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Manifest:
        given = {f.name: stored[f.name] for f in fields(cls)}
        layout = Layout(**given["layout"])
        if type(layout.features) is not int or not 0 <= layout.features <= MOST_FEATURES:
            raise ValueError("its layout has no number of features")
        if layout.classes is not None and (type(layout.classes) is not int or not 2 <= layout.classes <= MOST_FEATURES):
            raise ValueError("its layout has no number of classes")
        if type(given["threshold"]) not in (int, float) or not 0 <= given["threshold"] <= 1:
            raise ValueError("its threshold is no share")
        classes = None if given["classes"] is None else tuple(str(name) for name in given["classes"])
        if classes is not None and layout.classes not in (None, len(classes)):
            raise ValueError("its class names are not as many as its classes")
        texts = tuple(str(text) for text in given["assumptions"])
        return cls(**given | {"layout": layout, "classes": classes, "assumptions": texts})


def current(stored: dict[str, Any], where: str) -> dict[str, Any]:
    """The description as this opcal writes it, from that of any earlier version."""
    version = stored.get("version")
    if type(version) is not int or version > VERSION:
        raise ArtifactError(f"{where} has version {version!r}, this opcal reads up to {VERSION}: use a newer opcal")
    while version < VERSION:
        if version not in UPGRADES:
            raise ArtifactError(f"{where} has version {version}, which never was")
        stored = UPGRADES[version](stored)
        version += 1
    return stored
