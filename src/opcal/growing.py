"""A pool that grows: what was prepared on its beginning stays, and the new items join in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opcal.core.medoids import Clustering
from opcal.core.method import Field, Outputs
from opcal.errors import IncompatiblePool
from opcal.pool import Pool


@dataclass(frozen=True)
class GrownField(Field):
    """A field whose medoids and whose preparation are those of its beginning."""

    beginning: Field | None = None

    @cached_property
    def clustering(self) -> Clustering:
        """The medoids of the beginning; each new item goes to the nearest of them."""
        assert self.beginning is not None
        old = self.beginning.clustering
        new = old.assign(self.pool.features[len(old.assignment) :])
        return replace(old, assignment=np.concatenate([old.assignment, new]))


def grown(field: Field, outputs: Outputs) -> Field:
    """The field over more items; `outputs` begins with those of `field`."""
    more = GrownField(outputs, field.n_clusters, field.budget, field.seed, field)
    # What the default method and its design prepared (core.embedding.prepared) is kept with the field.
    if "_preparation" in vars(field):
        vars(more)["_preparation"] = replace(vars(field)["_preparation"], field=more)
    return more


def check_grown(old: Pool, new: Pool) -> None:
    """Refuse a pool that does not begin with the items of the old one."""
    n = len(old)
    same = len(new) > n and np.array_equal(new.predicted[:n], old.predicted)
    if not same or any(new.id_of(i) != old.id_of(i) for i in (0, n - 1)):
        raise IncompatiblePool(
            f"the pool has {len(new)} items and does not begin with the {n} that the calibrator knows: "
            "append the new items at the end"
        )
