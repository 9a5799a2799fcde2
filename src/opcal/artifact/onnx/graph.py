"""A small writer of ONNX graphs: names for results, constants stored once, everything in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from opcal.core.method import FloatArray

OPSET = 17
FAR = -1e30
"""Stands for −∞ where a maximum or an exponential is taken."""


class Graph:
    """Nodes, constants and the few operations that the methods are made of; rows are the first axis."""

    def __init__(self, opset: int = OPSET, prefix: str = "opcal") -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._opset, self._prefix, self._count = opset, prefix, 0
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def op(self, kind: str, *inputs: Any, out: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        self._count += 1
        name = out or f"{self._prefix}/{kind}_{self._count}"
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], name=f"{name}/node", **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Floats become doubles, whole numbers int64."""
        from onnx import numpy_helper

        array = np.asarray(value)
        array = np.ascontiguousarray(array, np.float64 if array.dtype.kind == "f" else np.int64).reshape(array.shape)
        key = array.dtype.name, array.shape, array.tobytes()
        if key not in self._known:
            self._known[key] = f"{self._prefix}/constant_{len(self._known)}"
            self.constants.append(numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def add(self, x: Any, *others: Any) -> str:
        for y in others:
            x = self.op("Add", x, y)
        return str(x)

    def sub(self, x: Any, y: Any) -> str:
        return self.op("Sub", x, y)

    def mul(self, x: Any, *others: Any) -> str:
        for y in others:
            x = self.op("Mul", x, y)
        return str(x)

    def div(self, x: Any, y: Any) -> str:
        return self.op("Div", x, y)

    def dot(self, x: Any, y: Any) -> str:
        return self.op("MatMul", x, y)

    def exp(self, x: str) -> str:
        return self.op("Exp", x)

    def log(self, x: str) -> str:
        return self.op("Log", x)

    def sqrt(self, x: str) -> str:
        return self.op("Sqrt", x)

    def least(self, x: Any, y: Any) -> str:
        return self.op("Min", x, y)

    def most(self, x: Any, y: Any) -> str:
        return self.op("Max", x, y)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.least(self.most(x, low), high)

    def where(self, condition: str, x: Any, y: Any) -> str:
        return self.op("Where", condition, x, y)

    def total(self, x: str) -> str:
        """Sum over the last axis, kept [N, 1]."""
        return self.op("ReduceSum", x, np.array([1]), keepdims=1)

    def top(self, x: str) -> str:
        """Maximum over the last axis, kept [N, 1]."""
        if self._opset >= 18:
            return self.op("ReduceMax", x, np.array([1]), keepdims=1)
        return self.op("ReduceMax", x, axes=[1], keepdims=1)

    def squares(self, x: str) -> str:
        return self.total(self.mul(x, x))

    def double(self, x: str) -> str:
        return self.op("Cast", x, to=11)

    def columns(self, *parts: str) -> str:
        return self.op("Concat", *parts, axis=1)

    def sigmoid(self, x: str) -> str:
        return self.div(1.0, self.add(self.exp(self.op("Neg", x)), 1.0))

    def softmax(self, x: str) -> str:
        e = self.exp(self.sub(x, self.top(x)))
        return self.div(e, self.total(e))

    def unit(self, x: str) -> str:
        """Rows of length 1; rows of zeros stay zero."""
        norm = self.sqrt(self.squares(x))
        return self.div(x, self.where(self.op("Greater", norm, 0.0), norm, 1.0))

    def onehot(self, at: str, n: int) -> str:
        """Booleans [N, n] from whole numbers [N, 1]."""
        return self.op("Equal", at, np.arange(n)[None])

    def through_logistic(self, mean: str, variance: str) -> str:
        """`core.spread.through_logistic`."""
        widest = self.mul(mean, self.sub(1.0, mean))
        root = self.sqrt(self.add(self.mul(2.0, widest, variance), 1.0))
        return self.mul(widest, self.sub(1.0, self.div(1.0, root)))

    def widest_sd(self, mean: str, share: float = 0.999) -> str:
        return self.mul(self.sqrt(self.most(self.mul(mean, self.sub(1.0, mean)), 0.0)), share)


def rbf(g: Graph, inner: str, norms: str, points: FloatArray, length: float) -> str:
    """exp(−‖x−y‖²/2ℓ²) [N, n] from inner products [N, n], the rows' squared norms [N, 1] and the points [n, d]."""
    own = np.einsum("ij,ij->i", points, points)[None]
    d2 = g.most(g.add(g.mul(inner, -2.0), norms, own), 0.0)
    return g.exp(g.mul(d2, -0.5 / length**2))
