"""TorchScript: the representation is found in the frozen graph and made an output."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from opcal.errors import ModelError
from opcal.extract.models import taps
from opcal.extract.models.dense import DENSE, dense_head, quiet
from opcal.extract.models.files import hash_of
from opcal.extract.models.options import RunOptions
from opcal.extract.models.pytorch import TorchModel, full_precision
from opcal.extract.models.tensors import digest_of, logits_of, split


def load_script(path: Path, options: RunOptions) -> TorchModel:
    try:
        with quiet():
            script = torch.jit.load(str(path), map_location="cpu")
    except RuntimeError as error:
        raise ModelError(f"{path} cannot be loaded as TorchScript ({error}): save it again") from error
    return ScriptModel(script, options, path.name, hash_of(path))


def of_script(script: Any, options: RunOptions) -> TorchModel:
    return ScriptModel(script, options, str(getattr(script, "original_name", "TorchScript")))


class ScriptModel(TorchModel):
    """What torch.jit.trace or torch.jit.script wrote: frozen, so that weights are constants of one graph."""

    def __init__(self, script: Any, options: RunOptions, name: str | None = None, digest: str = "") -> None:
        self._digest, self._function = digest, None
        super().__init__(script, options, name)

    def _moved(self, module: Any) -> nn.Module:
        """A copy, on its device: freezing would change the user's."""
        with quiet():
            stored = io.BytesIO()
            torch.jit.save(module, stored)
            stored.seek(0)
            copied = torch.jit.load(stored, map_location=self.device)
            if hasattr(copied, "training"):
                return torch.jit.freeze(copied.eval().to(self.dtype), optimize_numerics=False)
            if self.dtype != torch.float32:
                raise ModelError("this TorchScript is frozen: leave --precision out, or save it unfrozen")
            return copied  # type: ignore[no-any-return]

    def digest(self) -> str:
        return self._digest or digest_of(self._given)

    def _plain(self) -> TorchModel:
        return ScriptModel(self._given, full_precision(self.options), self.name)

    def _hook(self, tap: taps.Tap) -> None:
        pass

    def _find(self, sent: Any, **how: Any) -> taps.Tap:
        nodes = self._dense_nodes()
        function = self._exposing([(node.input, node.node.output()) for node in nodes])
        output, *seen = self._call(function, sent)
        calls = [
            taps.Call(node.name, node.kind, *pair, node.head(pair[0]), i)
            for i, (node, pair) in enumerate(zip(nodes, zip(seen[::2], seen[1::2], strict=True), strict=True))
        ]
        tap = taps.choose(calls, logits_of(output), **how)
        chosen = nodes[tap.call.nth]
        self._function = self._exposing([(chosen.input, chosen.node.output())])
        return tap

    def _dense_nodes(self) -> list[_Node]:
        self._graph = self.module.graph.copy()
        torch._C._jit_pass_inline(self._graph)
        nodes = [_Node(n) for n in self._graph.nodes() if n.kind().removeprefix("aten::") in DENSE]
        layer = self.options.layer
        nodes = [n for n in nodes if layer is None or layer == n.name]
        if not nodes:
            raise ModelError(taps.none_found("the TorchScript graph", layer))
        return nodes

    def _exposing(self, pairs: list[tuple[Any, Any]]) -> Any:
        graph = self._graph
        outputs = len(list(graph.outputs()))
        for pair in pairs:
            for value in pair:
                graph.registerOutput(value)
        copied = graph.copy()
        copied.makeMultiOutputIntoTuple()
        for _ in range(2 * len(pairs)):
            graph.eraseOutput(outputs)
        return torch._C._create_function_from_graph("forward", copied)

    def _call(self, function: Any, sent: Any) -> Any:
        arguments = sent if isinstance(sent, tuple) else tuple(sent.values()) if isinstance(sent, dict) else (sent,)
        return function(self.module._c, *arguments)

    def _outputs(self, sent: Any) -> tuple[Tensor, Tensor]:
        assert self.tap is not None, "examine comes first"
        output, given, own = self._call(self._function, sent)
        return split(given, own, logits_of(output), self.tap.relation)


class _Node:
    """A dense node of a TorchScript graph."""

    def __init__(self, node: Any) -> None:
        self.node, self.kind = node, node.kind().removeprefix("aten::")
        self._inputs = list(node.inputs())
        self.input = self._inputs[DENSE[self.kind][0]]

    @property
    def name(self) -> str:
        """The module that it came from, where the weight tells it; else the output's name."""
        weight = self._inputs[DENSE[self.kind][1]].debugName()
        known = weight.startswith("self.") and weight.endswith(".weight")
        return weight[len("self.") : -len(".weight")] if known else self.node.output().debugName()

    def head(self, given: Tensor) -> tuple[Tensor, Tensor] | None:
        _, weight, bias = (None if i is None else self._inputs[i].toIValue() for i in DENSE[self.kind])
        return dense_head(self.kind, weight, bias, given)
