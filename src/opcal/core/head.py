"""The model's last layer from its inputs and outputs: logits = features @ W.T + b by least squares, if that is so."""

from __future__ import annotations

import numpy as np

from opcal.core.method import FloatArray, Head, Outputs

TOLERANCE = 2e-3
"""Root mean square error on held-out rows over that of the logits: float16 features of a true head leave 3e-4."""


def recover_head(pool: Outputs, rng: np.random.Generator) -> Head | None:
    """W and b with the mean over classes taken out, or None where N <= 2d or held-out rows do not confirm it.

    Only centred logits are looked at, so log-probabilities serve as well as logits.
    """
    n, d = pool.features.shape
    if pool.logits is None or n <= 2 * d:
        return None
    rows = rng.permutation(n)[: 3 * d + 1000]
    z = np.column_stack([pool.features[rows], np.ones(len(rows))]).astype(np.float64)
    h = np.asarray(pool.logits[rows], dtype=np.float64)
    h -= h.mean(1, keepdims=True)
    known = len(rows) - max(len(rows) // 5, 1)
    solution = np.linalg.lstsq(z[:known], h[:known], rcond=1e-6)[0]
    error = ((z[known:] @ solution - h[known:]) ** 2).mean()
    confirmed = error <= TOLERANCE**2 * (h**2).mean()
    return Head(solution[:-1].T, solution[-1]) if confirmed else None


def head_of(pool: Outputs, rng: np.random.Generator) -> Head | None:
    """The head that was given, else one recovered."""
    return pool.head if pool.head is not None else recover_head(pool, rng)


def centred_weight(head: Head) -> FloatArray:
    """W − mean(W) over classes [K, d]: all of the head that a softmax can see."""
    weight: FloatArray = head.weight - head.weight.mean(0)
    return weight
