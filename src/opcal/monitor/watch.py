"""One look at new data: what changed, what it probably costs, which items are like none that were seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from opcal._threads import one_thread
from opcal.calibrator import OperationalCalibrator
from opcal.core.fence import Fence, fenced
from opcal.core.method import BoolArray, FloatArray
from opcal.core.posterior import Beta, Posterior
from opcal.errors import InvalidInput
from opcal.monitor.shift import Test, level_of, tests_of
from opcal.pool import Pool

SAMPLED, DRAWS = 500, 100
"""Rows and draws for the intervals of expectations."""


@dataclass(frozen=True)
class Expected:
    """What the calibrator itself expects of a field, were it right about it."""

    accuracy: float
    accuracy_interval_90: tuple[float, float]
    brier: float
    """Of the calibrated confidence."""
    brier_of_the_model: float
    """Of the model's own confidence."""
    mean_confidence_of_the_model: float


@dataclass(frozen=True)
class Watch:
    """What one look found."""

    look: int
    level: float
    """Share of false alarms that this look may give."""
    p: float
    """Of no change, all tests together."""
    tests: tuple[Test, ...]
    before: Expected
    now: Expected
    outside: BoolArray
    """Items like none that were seen, [N]."""
    posterior: Posterior
    """Of the new items; at most ½ and as good as unknown for those outside."""

    @property
    def alarm(self) -> bool:
        """Whether the field has changed."""
        return self.p <= self.level

    @property
    def confidence(self) -> FloatArray:
        return self.posterior.mean

    def as_json(self) -> dict[str, Any]:
        return {
            "alarm": self.alarm,
            "p": self.p,
            "level": self.level,
            "look": self.look,
            "items": len(self.outside),
            "tests": [asdict(test) for test in self.tests],
            "outside": int(self.outside.sum()),
            "before": asdict(self.before),
            "now": asdict(self.now),
        }


def watch(
    calibrator: OperationalCalibrator, pool: Pool, *, look: int = 1, alpha: float = 0.05, random_state: int = 0
) -> Watch:
    """Compare new items with the calibrator's pool. `look` counts the looks so far with this one; all looks together
    alarm falsely with probability at most `alpha`."""
    if look < 1 or not 0 < alpha < 1:
        raise InvalidInput(f"look is {look} and alpha {alpha}: expected a count from 1 and a probability")
    fresh = calibrator.posterior(pool)  # refuses a pool of another model
    field = calibrator.field_
    rng = np.random.default_rng([field.seed, look, random_state])
    level = level_of(look, alpha)
    with one_thread():
        tests = tests_of(field.pool, pool.outputs, field.clustering, level, rng)
        outside = Fence.of(field.pool.features, field.generator("watch")).outside_of_batch(pool.features)
    posterior = fenced(fresh, outside)
    some = np.sort(rng.permutation(len(field.pool))[: 4 * SAMPLED])
    return Watch(
        look,
        level,
        min(1.0, len(tests) * min(test.p for test in tests)),
        tuple(tests),
        expected(calibrator.posterior(calibrator.pool_.take(some)), field.pool.take(some).confidence),
        expected(posterior, pool.confidence),
        outside,
        posterior,
    )


def expected(posterior: Posterior, own: FloatArray) -> Expected:
    """From the calibrated confidence and the model's own [N]."""
    c = posterior.mean
    some = np.unique(np.linspace(0, len(c) - 1, min(len(c), SAMPLED)).astype(np.intp))
    draws = posterior.draws
    part = Posterior(
        c[some], posterior.sd[some], Beta(c[some], posterior.sd[some]), lambda n, rng: draws(n, rng)[:, some]
    )
    off = part.sample(DRAWS).mean(1) - c[some].mean() + c.mean()
    low, high = np.clip(np.quantile(off, [0.05, 0.95]), 0, 1)
    risk = float((c * (1 - c)).mean())
    return Expected(
        float(c.mean()), (float(low), float(high)), risk, risk + float(((own - c) ** 2).mean()), float(own.mean())
    )
