"""Counters in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.artifact.artifact import Judged

SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
TENTHS = tuple(round(i / 10, 1) for i in range(1, 11))
Labels = tuple[tuple[str, str], ...]


class Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_many(self, values: NDArray[Any]) -> None:
        places = np.bincount(np.searchsorted(self.bounds, values), minlength=len(self.counts))
        self.counts = [a + int(b) for a, b in zip(self.counts, places, strict=True)]
        self.total += float(values.sum())

    def lines(self, name: str) -> list[str]:
        so_far, lines = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {so_far}')
        return [*lines, f"{name}_sum {self.total!r}", f"{name}_count {so_far}"]


class Metrics:
    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: dict[Labels, int] = defaultdict(int)
        self._seconds, self._confidence = Histogram(SECONDS), Histogram(TENTHS)
        self._items = self._outside = self._acted = 0

    def request(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[("path", path), ("status", str(status))] += 1
            self._seconds.add(seconds)

    def judged(self, judged: Judged) -> None:
        with self._lock:
            self._items += len(judged.confidence)
            self._outside += int(judged.outside.sum())
            self._acted += int(judged.act.sum())
            self._confidence.add_many(judged.confidence)

    def text(self, digest: str, method: str, generation: int, failures: int) -> str:
        with self._lock:
            lines = ["# TYPE opcal_requests_total counter"]
            for labels, count in sorted(self._requests.items()):
                shown = ",".join(f'{key}="{value}"' for key, value in labels)
                lines.append(f"opcal_requests_total{{{shown}}} {count}")
            for name, value, said in (
                ("items", self._items, "Items scored."),
                ("outside", self._outside, "Items outside all that was seen."),
                ("act", self._acted, "Items whose confidence was at or above the threshold."),
                ("reload_failures", failures, "New artefacts that could not be read."),
            ):
                full = f"opcal_{name}_total"
                lines += [f"# HELP {full} {said}", f"# TYPE {full} counter", f"{full} {value}"]
            for name, histogram in (("request_seconds", self._seconds), ("confidence", self._confidence)):
                lines += [f"# TYPE opcal_{name} histogram", *histogram.lines(f"opcal_{name}")]
            info = f'opcal_artifact_info{{digest="{digest}",method="{method}"}} 1'
            lines += ["# TYPE opcal_artifact_info gauge", info]
            lines += ["# TYPE opcal_artifact_generation gauge", f"opcal_artifact_generation {generation}"]
        return "\n".join(lines) + "\n"
