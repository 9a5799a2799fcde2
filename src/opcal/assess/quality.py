"""Quality of the confidence before and after, on items drawn at random and with predictions that never saw them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from opcal.assess.crossfit import CrossFitted, cross_fitted
from opcal.calibrator import OperationalCalibrator
from opcal.core import metrics
from opcal.core.quality import FEWEST, Figure
from opcal.core.quality import quality as figures_of
from opcal.errors import NotEnoughLabels

SUREST = 0.999
"""λ = 1 would mean that a false prediction costs infinitely much: LCE is told for this one instead."""


@dataclass(frozen=True)
class Quality:
    """Every measure of the model's own confidence and of the calibrated one."""

    before: dict[str, Figure]
    after: dict[str, Figure]
    labels: int
    threshold: float
    level: float
    act_on_nothing: float | None
    """LCE of refusing everything: the accuracy."""
    act_on_everything: float | None
    crossfit: CrossFitted = field(repr=False)

    @property
    def enough(self) -> bool:
        return self.labels >= FEWEST

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as plain values."""
        plain = {name: getattr(self, name) for name in ("labels", "threshold", "level", "enough")}
        plain |= {"act_on_nothing": self.act_on_nothing, "act_on_everything": self.act_on_everything}
        both = (("before", self.before), ("after", self.after))
        return plain | {when: {name: asdict(f) for name, f in found.items()} for when, found in both}


def quality(cal: OperationalCalibrator, *, level: float = 0.95, crossfit: CrossFitted | None = None) -> Quality:
    """Brier score and parts, three calibration errors, LCE and AURC with intervals, before and after.

    On audit items alone; the calibrated confidence of each comes from a fit without its own label.
    """
    c = cross_fitted(cal) if crossfit is None else crossfit
    if len(c.audit) == 0:
        raise NotEnoughLabels("no label of an item drawn at random: quality is measured on those alone; use audit=0.25")
    own, threshold = cal.pool_.confidence, min(cal.threshold_, SUREST)
    before = figures_of(own[c.audit], c.correct, c.audit, own.copy(), threshold, level)
    after = figures_of(c.held_out, c.correct, c.audit, c.prediction.copy(), threshold, level)
    compared = metrics.lce_comparison(c.held_out, c.correct, threshold)
    enough = len(c.audit) >= FEWEST
    return Quality(
        before=before,
        after=after,
        labels=len(c.audit),
        threshold=threshold,
        level=level,
        act_on_nothing=compared.act_on_nothing if enough else None,
        act_on_everything=compared.act_on_everything if enough else None,
        crossfit=c,
    )
