"""The service on loopback: latency of single items at 100 requests a second, throughput of batches against in-process.

    make bench-serve        (python bench/serve.py)

Batches of 4,096 rows, 128 features and 10 classes, `auto` with 100 labels; in both formats that `serve` takes, in turn
with scoring in this process, and the median of the rounds. The client's own encoding is not counted.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import opcal

RATE, SECONDS, BATCH, ROUNDS = 100, 10, 4096, 20
KIND = "application/vnd.safetensors"


def fitted() -> tuple[opcal.OperationalCalibrator, Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((BATCH, 128)).astype(np.float32)
    h = (z @ rng.standard_normal((128, 10)) / 8).astype(np.float32)
    pool = opcal.Pool.from_arrays(z[:2000], h[:2000])
    return opcal.OperationalCalibrator().fit(pool, range(100), labels=rng.integers(0, 10, 100)), z, h


def latencies(port: int, z: Any, h: Any) -> list[float]:
    connection, found = http.client.HTTPConnection("127.0.0.1", port), []
    started = time.perf_counter()
    for k in range(RATE * SECONDS):
        time.sleep(max(0.0, started + k / RATE - time.perf_counter()))
        body = json.dumps({"features": z[k % BATCH].tolist(), "logits": h[k % BATCH].tolist()})
        sent = time.perf_counter()
        connection.request("POST", "/score", body, {"content-type": "application/json"})
        connection.getresponse().read()
        found.append(1000 * (time.perf_counter() - sent))
    connection.close()
    return found


def bodies(z: Any, h: Any) -> dict[str, tuple[bytes, dict[str, str]]]:
    """A batch in each format, with its headers."""
    from safetensors.numpy import save

    text = json.dumps({"features": z.tolist(), "logits": h.tolist()}).encode()
    return {
        "safetensors": (save({"features": z, "logits": h}), {"content-type": KIND, "accept": KIND}),
        "json": (text, {"content-type": "application/json"}),
    }


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def batches(port: int, z: Any, h: Any, inside: Callable[[], object]) -> dict[str, Any]:
    """Median seconds of a batch in this process and over HTTP, the ways taken in turn."""
    connection, made = http.client.HTTPConnection("127.0.0.1", port), bodies(z, h)

    def asked(name: str) -> None:
        connection.request("POST", "/score", *made[name])
        answer = connection.getresponse()
        assert answer.read()
        assert answer.status == 200

    ways: dict[str, Callable[[], object]] = {"in_process": inside}
    ways |= {name: (lambda name=name: asked(name)) for name in made}  # type: ignore[misc]
    took: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(ROUNDS + 2):
        for name, work in ways.items():
            found = seconds(work)
            if k >= 2:  # the first ones warm up
                took[name].append(found)
    connection.close()
    median = {name: float(np.median(values)) for name, values in took.items()}
    rates = {f"{name}_rows_a_second": len(z) / value for name, value in median.items()}
    return rates | {f"{name}_of_in_process": median["in_process"] / median[name] for name in made}


def begun(path: Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from opcal.cli import main; main(['serve', {str(path)!r}, '--port', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    while True:
        try:
            http.client.HTTPConnection("127.0.0.1", port).request("GET", "/ready")
            return server, port
        except OSError:
            time.sleep(0.1)


def measure() -> dict[str, Any]:
    calibrator, z, h = fitted()
    with tempfile.TemporaryDirectory() as folder:
        loaded = opcal.load(calibrator.save(Path(folder) / "x.opcal"))
        server, port = begun(Path(folder) / "x.opcal")
        try:
            pool = opcal.Pool.from_arrays(z, h)
            found = batches(port, z, h, lambda: loaded.judged(pool.outputs))
            single = latencies(port, z, h)
        finally:
            server.terminate()
            server.wait()
    return found | {f"single_ms_p{p}": float(np.percentile(single, p)) for p in (50, 99)}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
