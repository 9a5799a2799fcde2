"""Any other framework: a function of a batch that returns (features, logits), or the arrays themselves.

    python examples/extract_any_framework.py

`predict` stands for a model of JAX, TensorFlow, MXNet, C++ or a remote service: opcal only sees arrays.
The same from the command line: opcal extract examples/extract_any_framework.py:predict inputs.npy --out pool
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import opcal
from opcal.extract import extract

RNG = np.random.default_rng(0)
FIRST, LAST = RNG.standard_normal((12, 20)), RNG.standard_normal((20, 3))


def predict(batch: Any) -> tuple[Any, Any]:
    """Features: what goes into the last linear layer. Logits: what comes out, before any softmax."""
    features = np.tanh(np.asarray(batch) @ FIRST)
    return features, features @ LAST


def main() -> None:
    inputs = np.random.default_rng(1).standard_normal((500, 12))
    ids = [f"case-{i}" for i in range(500)]
    with tempfile.TemporaryDirectory() as folder:
        found = extract(predict, inputs, ids=ids, head=(LAST.T, np.zeros(3)), out=Path(folder) / "pool")
        print(found.representation)  # what predict returns, 20 numbers
        print(found.pool, found.pool.ids[0])

    features, logits = predict(inputs)  # arrays that you have already need no extraction
    print(opcal.Pool.from_arrays(features, logits, ids=ids, head=(LAST.T, np.zeros(3))))


if __name__ == "__main__":
    main()
