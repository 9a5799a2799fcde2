"""The service on loopback: latency of single items at 100 requests a second, throughput of batches against in-process.

python bench/serve.py
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import opcal

RATE, SECONDS, BATCH, BATCHES = 100, 10, 4096, 20
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


def batches(port: int, z: Any, h: Any) -> float:
    from safetensors.numpy import save

    connection, body = http.client.HTTPConnection("127.0.0.1", port), save({"features": z, "logits": h})
    started = time.perf_counter()
    for _ in range(BATCHES):
        connection.request("POST", "/score", body, {"content-type": KIND, "accept": KIND})
        assert connection.getresponse().read()
    connection.close()
    return BATCH * BATCHES / (time.perf_counter() - started)


def measure() -> dict[str, Any]:
    calibrator, z, h = fitted()
    with tempfile.TemporaryDirectory() as folder:
        loaded = opcal.load(calibrator.save(Path(folder) / "x.opcal"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        code = f"from opcal.cli import main; main(['serve', {str(Path(folder) / 'x.opcal')!r}, '--port', '{port}'])"
        server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    http.client.HTTPConnection("127.0.0.1", port).request("GET", "/ready")
                    break
                except OSError:
                    time.sleep(0.1)
            batches(port, z[:256], h[:256])
            single, served = latencies(port, z, h), batches(port, z, h)
        finally:
            server.terminate()
            server.wait()
    pool = opcal.Pool.from_arrays(z, h)
    started = time.perf_counter()
    for _ in range(BATCHES):
        loaded.judged(pool.outputs)
    inside = BATCH * BATCHES / (time.perf_counter() - started)
    return {
        "single_ms_p50": float(np.percentile(single, 50)),
        "single_ms_p99": float(np.percentile(single, 99)),
        "batch_rows_a_second": served,
        "batch_throughput_of_in_process": served / inside,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
