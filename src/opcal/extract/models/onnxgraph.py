"""The last dense layer of an ONNX graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx import TensorProto, helper

from opcal.errors import ModelError

DENSE = ("Gemm", "MatMul", "Conv")
THROUGH = ("Identity", "Reshape", "Flatten", "Squeeze", "Cast", "Dropout", "Transpose")
"""Nodes behind the last layer that leave its numbers as they are."""
PROBABILITIES = ("Softmax", "LogSoftmax", "Sigmoid")
"""What may stand behind the logits: they are taken before it."""


@dataclass(frozen=True)
class OnnxHead:
    weight: Any
    bias: Any
    turned: bool
    """The weight is stored as [K, d]."""
    scale: float = 1.0


class Graph:
    """Where features and logits are, both made outputs of the graph."""

    def __init__(self, graph: Any, layer: str | None, *, need_head: bool) -> None:
        self._graph = graph
        self._maker = {name: node for node in graph.node for name in node.output}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self.head: OnnxHead | None = None
        dense, self.logits, added = self._last_dense(need_head and layer is None)
        if layer is None:
            if dense is None:
                raise ModelError(self._none_found())
            self.features, self.told = dense.input[0], f"the input of {dense.name or dense.output[0]} ({dense.op_type})"
            self.head = self._head_of(dense, added) if need_head else None
        else:
            self.features, self.told = self._named(layer)
            same = dense is not None and self.features == dense.input[0]
            self.head = self._head_of(dense, added) if need_head and same else None
        self._expose(self.features)
        self._expose(self.logits)

    def _last_dense(self, must: bool) -> tuple[Any, str, Any]:
        """The layer behind the first output that comes from one, where its logits are, and a bias that is added."""
        first_end = None
        for output in self._graph.output:
            name, added = output.name, None
            logits = name
            while (node := self._maker.get(name)) is not None:
                if node.op_type in DENSE and self._is_dense(node):
                    return node, logits, added
                if node.op_type in PROBABILITIES and added is None:
                    logits = name = node.input[0]
                elif node.op_type in THROUGH:
                    name = node.input[0]
                    # A softmax over a reshaped tensor still ends in the same numbers.
                elif node.op_type == "Add" and added is None and self._constant_of(node) is not None:
                    added, name = self._constant_of(node), self._other_of(node)
                else:
                    first_end = first_end or node
                    break
        if must and first_end is not None:
            raise ModelError(
                f"no dense layer gives the logits: the model ends in {first_end.op_type} ({first_end.name}); name the "
                "tensor or node of the representation with --layer, or pass a function that returns (features, logits)"
            )
        return None, self._logits_name(), None

    def _logits_name(self) -> str:
        name: str = self._graph.output[0].name
        node = self._maker.get(name)
        return str(node.input[0]) if node is not None and node.op_type in PROBABILITIES else name

    def _is_dense(self, node: Any) -> bool:
        return len(node.input) > 1 and self._initializer(node.input[1]) is not None

    def _constant_of(self, node: Any) -> Any:
        return next((t for n in node.input if (t := self._initializer(n)) is not None), None)

    def _other_of(self, node: Any) -> str:
        return next(str(n) for n in node.input if self._initializer(n) is None)

    def _initializer(self, name: str) -> Any:
        if name in self._weights:
            return self._weights[name]
        node = self._maker.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            return next((a.t for a in node.attribute if a.name == "value"), None)
        return self._initializer(node.input[0]) if node.op_type == "Identity" else None

    def _head_of(self, node: Any, added: Any) -> OnnxHead | None:
        told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "MatMul":
            return OnnxHead(self._initializer(node.input[1]), added, turned=False)
        if node.op_type == "Conv":
            return OnnxHead(self._initializer(node.input[1]), self._bias(node), turned=True)
        plain = told.get("beta", 1.0) == 1.0 and not told.get("transA", 0)
        if not plain:
            return None
        weight = self._initializer(node.input[1])
        return OnnxHead(weight, self._bias(node) or added, bool(told.get("transB", 0)), float(told.get("alpha", 1.0)))

    def _bias(self, node: Any) -> Any:
        return self._initializer(node.input[2]) if len(node.input) > 2 else None

    def _named(self, layer: str) -> tuple[str, str]:
        """A node's first input, or a tensor, by name."""
        for node in self._graph.node:
            if node.name == layer:
                return node.input[0], f"the input of {layer} ({node.op_type})"
        if layer in self._maker or layer in {i.name for i in self._graph.input}:
            return layer, f"the tensor {layer}"
        names = [node.name or node.output[0] for node in self._graph.node if node.op_type in DENSE]
        raise ModelError(
            f"the graph has no node or tensor {layer!r}: its dense nodes are {', '.join(names[-8:]) or 'none'}"
        )

    def _none_found(self) -> str:
        kinds = ", ".join(dict.fromkeys(node.op_type for node in self._graph.node))
        return (
            f"no linear layer was found in the ONNX graph (it has {kinds}): name the tensor or node of the "
            "representation with --layer, or pass a function that returns (features, logits)"
        )

    def _expose(self, name: str) -> None:
        if name not in {output.name for output in self._graph.output}:
            known = {value.name: value for value in [*self._graph.value_info, *self._graph.input]}
            kind = known[name].type.tensor_type.elem_type if name in known else TensorProto.FLOAT
            self._graph.output.append(helper.make_tensor_value_info(name, kind, None))
