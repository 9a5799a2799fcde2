"""`method="paper"` on a pool that is larger than one process should hold: its rows stay where the shards are.

    with opcal.sharded.open("pool/", shards=4, engine="ray") as pool:
        cal = opcal.OperationalCalibrator("paper", opcal.sharded.PaperSelection())
        cal.begin(pool.pool)

The same items are asked as with `design="paper"` in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opcal._threads import one_thread
from opcal.core.designs import PaperChooser
from opcal.core.kernels import CHUNK, Nearest, chunks, working_dtype
from opcal.core.medoids import Passes, Surveyed
from opcal.core.method import Answers, Field, FloatArray, IntArray, Learner, Outputs
from opcal.core.paper import Paper, PaperLearner
from opcal.core.rows import ClusterRows
from opcal.core.sharding import Shard, cuts, owners
from opcal.core.step import NEVER
from opcal.errors import InvalidInput
from opcal.pool import Pool

if TYPE_CHECKING:
    from opcal.extract.actors import Actors


def open(path: str | Path, *, shards: int = 2, engine: str = "local", address: str | None = None) -> ShardedPool:
    """A stored pool in `shards` places, each of which maps its own slice of the features; one Ray actor each."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise InvalidInput(f"shards is {shards!r}: expected a number of places, 1 or more")
    from opcal.extract.actors import start

    stored = Pool.open(path)
    ranges = cuts(len(stored), shards)
    place = Path(path).resolve()
    return ShardedPool(
        stored, ranges, start([partial(_shard, place, *r) for r in ranges], engine=engine, address=address)
    )


def _shard(path: Path, start: int, stop: int) -> _OneThreaded:
    return _OneThreaded(Shard(Pool.open(path).features[start:stop], start))


class _OneThreaded:
    """One BLAS thread, as in the calibrator: the same bytes everywhere."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with one_thread():
                return getattr(self._shard, name)(*arguments)

        return call


class ShardedPool:
    """A pool whose features lie in shards; `.pool` is what the calibrator takes."""

    def __init__(self, stored: Pool, ranges: list[tuple[int, int]], actors: Actors) -> None:
        self.actors = actors
        features: Any = ShardedRows(stored.features.shape, stored.features.dtype, ranges, actors)
        outputs = Outputs(features, stored.confidence, stored.predicted, stored.logits, stored.head)
        self.pool = Pool(outputs, stored.classes, stored.payload, stored.columns, stored.model, stored.given_ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.actors.close()


class ShardedRows:
    """Looks like features [N, d]: what is indexed is fetched, what passes over all rows is done where they are."""

    ndim = 2

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], ranges: list[tuple[int, int]], actors: Actors
    ) -> None:
        self.shape, self.dtype, self.ranges, self.actors = shape, dtype, ranges, actors
        self.size = shape[0] * shape[1]
        self._starts = np.array([start for start, _ in ranges])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> FloatArray:
        if isinstance(index, (int, np.integer)):
            row: FloatArray = self[np.array([index])][0]
            return row
        at = np.arange(len(self))[index] if isinstance(index, slice) else np.asarray(index)
        at = np.flatnonzero(at) if at.dtype == bool else at
        out = np.empty((len(at), self.shape[1]), self.dtype)
        where = self._starts.searchsorted(at, side="right") - 1
        parts = [(s, np.flatnonzero(where == s)) for s in np.unique(where).tolist()]
        for (_, places), rows in zip(parts, self.each([(s, "rows", at[p]) for s, p in parts]), strict=True):
            out[places] = rows
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def each(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Several calls (shard, method, arguments…), all at once."""
        return self.actors.get([self.actors.call(*call) for call in calls])

    def passes(self) -> Passes:
        total = np.zeros(self.shape[1])
        for sums in self.each((s, "sums") for s in range(len(self.ranges))):
            for part in sums:
                total += part
        features: Any = self
        return _ShardedPasses(features, (total / len(self)).astype(working_dtype(np.empty(0, self.dtype))))


class _ShardedPasses(Passes):
    """The clustering's passes over all rows; only [N] numbers and [L, d] sums come here."""

    def _rows(self) -> ShardedRows:
        rows: Any = self.features
        return rows  # type: ignore[no-any-return]

    def surveyed(self, nearest: Nearest) -> Iterator[tuple[slice, Surveyed]]:
        rows = self._rows()
        found = rows.each((s, "surveyed", self.centre, nearest) for s in range(len(rows.ranges)))
        return zip(chunks(len(rows), CHUNK), (part for parts in found for part in parts), strict=True)

    def off(self, means: FloatArray, assignment: IntArray) -> FloatArray:
        rows = self._rows()
        calls = ((s, "off", self.centre, means, assignment[a:b]) for s, (a, b) in enumerate(rows.ranges))
        return np.concatenate(rows.each(calls))


@dataclass(frozen=True)
class PaperSelection:
    """`design="paper"` over a sharded pool: each label touches one place, which gives back its clusters' best items."""

    threshold: float = 0.9

    def begin(self, field: Field, learner: Learner) -> ShardedChooser:
        features: Any = field.pool.features
        if not isinstance(features, ShardedRows):
            raise InvalidInput('the pool is not sharded: open it with opcal.sharded.open, or use design="paper"')
        own = learner if isinstance(learner, PaperLearner) else Paper().begin(field)
        return ShardedChooser(own, features, self.threshold)


class ShardedChooser(PaperChooser):
    """The choice between clusters; their posteriors are elsewhere."""

    def __init__(self, learner: PaperLearner, features: ShardedRows, threshold: float) -> None:
        self.learner, self.threshold = learner, threshold
        self.answers = Answers.none()
        self.rows = _Located(learner)
        self._checkpoint = self._followed = 0
        self._medoids: list[tuple[int, int]] = []
        self._features = features
        sizes = np.array([len(rows) for rows in self.rows.members])
        self._owner = owners(sizes, len(features.ranges))
        self._lay_out()
        self.posteriors: Any = [_Remote(self, c) for c in range(len(sizes))]
        self._taken = [np.zeros(n, dtype=bool) for n in sizes.tolist()]
        self._begin_again(0)

    def ask(self, c: int, method: str, *arguments: Any) -> Any:
        """Begin a call where cluster c is kept."""
        return self._features.actors.call(int(self._owner[c]), "posterior", method, *arguments)

    def _lay_out(self) -> None:
        """Every slice sends the rows of each cluster to its keeper, worker to worker."""
        actors, ranges = self._features.actors, self._features.ranges
        assignment = self.learner.clustering.assignment
        for keeper in range(len(ranges)):
            clusters = np.flatnonzero(self._owner == keeper).tolist()
            for s, (a, b) in enumerate(ranges):
                parts = actors.call(s, "members", clusters, assignment[a:b])
                actors.get([actors.call(keeper, "receive", clusters, parts)])
            origins = {c: self._origin(c) for c in clusters}
            confidence = {c: self.learner.field.pool.confidence[self.rows.members[c]] for c in clusters}
            actors.get([actors.call(keeper, "lay_out", origins, confidence, self.threshold)])

    def _origin(self, c: int) -> FloatArray:
        medoid = self._features[int(self.learner.clustering.medoids[c])]
        return medoid.astype(self.learner.dtype, copy=False)

    def _next(self) -> int | None:
        if not any(not self._taken[c][row] for c, row in self._medoids):
            self._fetch(sorted(self._stale))
        return super()._next()

    def _fetch(self, clusters: list[int]) -> None:
        """The best items of these clusters, one question for each place."""
        keepers = np.unique(self._owner[clusters]).tolist() if clusters else []
        asked = [[c for c in clusters if self._owner[c] == keeper] for keeper in keepers]
        found = self._features.actors.get([self.ask(group[0], "best", group) for group in asked])
        for group, bests in zip(asked, found, strict=True):
            for c, (score, row) in zip(group, bests, strict=True):
                self._best[c] = score, (self.rows.position(c, row) if score < NEVER else row)

    def _best_of(self, c: int) -> tuple[float, int]:
        return self._best[c]  # `_next` has fetched it


class _Remote:
    """Stands for a cluster's `PoolGP`: changes are sent off, and nothing is waited for."""

    def __init__(self, chooser: ShardedChooser, c: int) -> None:
        self._chooser, self._c = chooser, c

    def begin(self, kernel: Any, rows: IntArray, *arguments: Any) -> None:
        self._chooser.ask(self._c, "begin", self._c, rows, kernel, *arguments)

    def add(self, row: int, *arguments: Any) -> None:
        self._chooser.ask(self._c, "add", self._c, row, *arguments)

    def expect(self, row: int) -> None:
        self._chooser.ask(self._c, "expect", self._c, row)

    def snapshot(self) -> None:
        self._chooser.ask(self._c, "save", self._c)

    def restore(self, saved: None) -> None:
        self._chooser.ask(self._c, "go_back", self._c)


class _Located(ClusterRows):
    """Where each row is, without the rows."""

    def __init__(self, learner: PaperLearner) -> None:
        self.members = learner.members
        self._cluster_of = learner.clustering.assignment
        self.confidence = []
        self.medoids = [
            int(np.searchsorted(rows, j)) for rows, j in zip(self.members, learner.clustering.medoids, strict=True)
        ]
