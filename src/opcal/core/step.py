"""One label's arithmetic over the rows of a cluster: in C (step.c) where a compiler was at hand, else in NumPy.

The installation compiles step.c when it can (hatch_build.py); nothing but speed depends on it. The arrays that are
bound here are changed in place and must stay where they are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opcal.core.method import BoolArray, FloatArray
from opcal.core.truncnorm import moments

if TYPE_CHECKING:
    from opcal.core.gp import Kernel

NEVER = np.inf
TINY = 1e-150
"""A smaller standard deviation counts as none."""
LAST = np.finfo(np.float64).max
"""Score of an item about which nothing is left to learn: after all others, before those that are taken."""

Add = Callable[["Kernel", FloatArray, int, float, float, Sequence[FloatArray], FloatArray], None]
"""(kernel, d² from row j, j, residual, noise, earlier rows of V, row of V to fill): a label at row j."""
Find = Callable[[bool], tuple[FloatArray, int]]
"""(has the cluster labels?) -> scores [n] and the row of the least one."""


def adder(mean: FloatArray, variance: FloatArray) -> Add:
    """l = V[:, j], s = √(var_j + noise), r = (k(X, x_j) − lᵀV) / s, mean += r (y − mean_j) / s, var −= r²."""
    library = compiled()
    return _numpy_adder(mean, variance) if library is None else _compiled_adder(library, mean, variance)


def finder(mean: FloatArray, variance: FloatArray, confidence: FloatArray, taken: BoolArray, threshold: float) -> Find:
    """argmin |μ_tn − λ| / σ_tn over the rows; taken ones never win, nor does NaN."""
    library, find = compiled(), _numpy_finder(mean, variance, confidence, taken, threshold)
    if library is None or not confidence.flags.c_contiguous:
        return find
    score = np.empty(len(mean))
    bound = len(mean), *(a.ctypes.data for a in (mean, variance, confidence, taken)), threshold, score.ctypes.data

    def compiled_find(labelled: bool) -> tuple[FloatArray, int]:
        row = library.best(*bound) if labelled else -1  # `find` keeps the arrays alive
        return (score, row) if row >= 0 else find(labelled)

    return compiled_find


def _numpy_adder(mean: FloatArray, variance: FloatArray) -> Add:
    def add(
        kernel: Kernel, d2: FloatArray, j: int, y: float, noise: float, rows: Sequence[FloatArray], r: FloatArray
    ) -> None:
        r[:] = kernel.of(d2)
        for block in rows:
            r -= block[:, j] @ block
        s = float(np.sqrt(max(variance[j], 0.0) + noise))
        r /= s
        gain = (y - mean[j]) / s
        mean[:] += r * gain
        variance[:] -= r * r
        np.maximum(variance, 0.0, out=variance)

    return add


def _compiled_adder(library: ctypes.CDLL, mean: FloatArray, variance: FloatArray) -> Add:
    functions = {np.dtype(np.float32): library.add_float, np.dtype(np.float64): library.add_double}

    def add(
        kernel: Kernel, d2: FloatArray, j: int, y: float, noise: float, rows: Sequence[FloatArray], r: FloatArray
    ) -> None:
        blocks = (ctypes.c_void_p * len(rows))(*map(_address, rows))
        filled = (ctypes.c_long * len(rows))(*map(len, rows))
        decay = -0.5 / kernel.length**2
        changed = _address(mean), _address(variance), len(rows), blocks, filled, _address(r)
        functions[r.dtype](len(mean), j, _address(d2), decay, kernel.amplitude, noise, y, *changed)

    return add


def _numpy_finder(
    mean: FloatArray, variance: FloatArray, confidence: FloatArray, taken: BoolArray, threshold: float
) -> Find:
    def find(labelled: bool) -> tuple[FloatArray, int]:
        mu, sd = moments(confidence + mean, np.sqrt(variance))
        score: FloatArray = np.abs((mu if labelled else confidence) - threshold)
        score /= np.maximum(sd, TINY)
        if not (known := sd > TINY).all():
            score[~known] = LAST
        np.copyto(score, NEVER, where=taken)
        return score, int(score.argmin())

    return find


def _address(array: FloatArray) -> int:
    """Of a writable array; `array.ctypes.data` takes four times as long."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data))


@cache
def compiled() -> ctypes.CDLL | None:
    """The functions of step.c, or None where it was not compiled or OPCAL_COMPILED=0 says to do without."""
    path = Path(__file__).with_name("libstep.so")
    if os.environ.get("OPCAL_COMPILED") == "0" or not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # made for another machine
        return None
    pointer, integer, number = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
    for function in (library.add_float, library.add_double):
        function.argtypes = [integer, integer, pointer, *[number] * 4, pointer, pointer, integer, *[pointer] * 3]
        function.restype = None
    library.best.argtypes = [integer, *[pointer] * 4, number, pointer]
    library.best.restype = integer
    return library
