"""One function runs a piece of work over the parts of a data set, here or on Ray: extraction and scoring share it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from opcal.errors import ClusterError, OpcalError, UnknownOption
from opcal.extract import cluster

P = TypeVar("P")
R = TypeVar("R")


def run_parts(
    make: Callable[[], Callable[[P], R]],
    parts: Sequence[P],
    *,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    threads: int | None = None,
) -> Iterator[R]:
    """The results of the parts, in their order, as they are ready.

    `make` is called once in each worker and returns the function of a part: whatever is costly (loading a model or an
    artefact, opening a pool) happens there. It is sent to the workers, and so are the parts and the results: large
    ones are better written to files. A worker that dies is replaced, and its part done again.
    """
    if engine == "local":
        work = make()
        return map(work, parts)
    if engine == "ray":
        return _on_ray(make, parts, workers, address, threads)
    raise UnknownOption(f'engine is {engine!r}: expected "local" or "ray"')


def _on_ray(
    make: Callable[[], Callable[[P], R]], parts: Sequence[P], workers: int, address: str | None, threads: int | None
) -> Iterator[R]:
    started = cluster.begin(address, workers, threads)
    try:
        data = cluster.ray_data()
        rows = [{"part": i} for i in range(len(parts))]
        found = data.from_items(rows, override_num_blocks=max(len(rows), 1)).map_batches(
            _Worker,
            fn_constructor_args=(make, list(parts)),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(workers, max(len(rows), 1))),
            num_cpus=1,
        )
        for row in found.iter_rows():
            outcome = pickle.loads(row["outcome"])
            if isinstance(outcome, _Refused):
                raise outcome.error
            yield outcome
    except cluster.ray().exceptions.RayError as error:
        raise ClusterError(
            f"a worker of the Ray cluster failed ({cluster.cause(error)}): the workers need the same packages and "
            "modules as this process, and the files under the same paths; what is done is kept, see --resume"
        ) from error
    finally:
        cluster.end(started)


class _Refused:
    """An error of opcal's own, brought here whole: Ray would wrap it into its trace."""

    def __init__(self, error: OpcalError) -> None:
        self.error = error


class _Worker:
    def __init__(self, make: Callable[[], Callable[[Any], Any]], parts: list[Any]) -> None:
        self._make, self._parts = make, parts
        self._work: Callable[[Any], Any] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"outcome": [pickle.dumps(self._outcome(int(i))) for i in batch["part"]]}

    def _outcome(self, i: int) -> Any:
        try:
            self._work = self._work or self._make()
            return self._work(self._parts[i])
        except OpcalError as error:
            return _Refused(error)
