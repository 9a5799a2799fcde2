"""Objects that live in workers: in this process, or each in a Ray actor of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from opcal.errors import UnknownOption
from opcal.extract import cluster


class Actors(Protocol):
    """A fixed number of objects; `call` begins a call and `get` waits for it. Calls to one object keep their order.

    What `call` returns may be an argument of another call: it then goes from worker to worker, not through here.
    """

    def __len__(self) -> int: ...
    def call(self, which: int, method: str, *arguments: Any) -> Any: ...
    def get(self, calls: Sequence[Any]) -> list[Any]: ...
    def close(self) -> None: ...


def start(makers: Sequence[Callable[[], Any]], *, engine: str = "local", address: str | None = None) -> Actors:
    """One worker for each of these functions, which make the objects; the functions are sent to the workers."""
    if engine == "local":
        return LocalActors(makers)
    if engine == "ray":
        return RayActors(makers, address)
    raise UnknownOption(f'engine is {engine!r}: expected "local" or "ray"')


class LocalActors:
    def __init__(self, makers: Sequence[Callable[[], Any]]) -> None:
        self._objects = [make() for make in makers]

    def __len__(self) -> int:
        return len(self._objects)

    def call(self, which: int, method: str, *arguments: Any) -> Any:
        return getattr(self._objects[which], method)(*arguments)

    def get(self, calls: Sequence[Any]) -> list[Any]:
        return list(calls)

    def close(self) -> None:
        self._objects.clear()


class RayActors:
    def __init__(self, makers: Sequence[Callable[[], Any]], address: str | None) -> None:
        self._started = cluster.begin(address, len(makers))
        self._ray = cluster.ray()
        remote = self._ray.remote(num_cpus=1)(_Actor)
        self._actors = [remote.remote(make) for make in makers]

    def __len__(self) -> int:
        return len(self._actors)

    def call(self, which: int, method: str, *arguments: Any) -> Any:
        return self._actors[which].call.remote(method, *arguments)

    def get(self, calls: Sequence[Any]) -> list[Any]:
        return list(self._ray.get(list(calls)))

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()
        cluster.end(self._started)


class _Actor:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._object = make()

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._object, method)(*arguments)
