"""Exported programs and TorchScript: the representation is found in the graph and taken out of it."""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from opcal.errors import ModelError
from opcal.extract.models import taps
from opcal.extract.models.files import hash_of
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.models.pytorch import TorchModel, digest_of, logits_of, split

aten = torch.ops.aten
DENSE = {"linear": (0, 1, 2), "addmm": (1, 2, 0), "conv2d": (0, 1, 2), "mm": (0, 1, None), "matmul": (0, 1, None)}
"""Places of input, weight and bias among the arguments."""


def load_program(path: Path, options: RunOptions) -> TorchModel:
    try:
        with quiet():
            program = torch.export.load(path)
    except Exception as error:  # a broken archive breaks its reader in every way
        raise ModelError(f"{path} cannot be loaded as an exported program ({error}): export it again") from error
    return ProgramModel(program, options, path.name, hash_of(path))


def load_script(path: Path, options: RunOptions) -> TorchModel:
    try:
        with quiet():
            script = torch.jit.load(str(path), map_location="cpu")
    except RuntimeError as error:
        raise ModelError(f"{path} cannot be loaded as TorchScript ({error}): save it again") from error
    return ScriptModel(script, options, path.name, hash_of(path))


def of_program(program: Any, options: RunOptions) -> TorchModel:
    return ProgramModel(program, options, "exported program")


def of_script(script: Any, options: RunOptions) -> TorchModel:
    return ScriptModel(script, options, str(getattr(script, "original_name", "TorchScript")))


class quiet(warnings.catch_warnings):  # type: ignore[type-arg]  # noqa: N801  used as a function
    """TorchScript is deprecated, which whoever has such a file cannot help."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


class _Catch(nn.Module):
    """Keeps what goes into and comes out of one node of a graph."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, given: Tensor, output: Tensor) -> None:
        self.seen.append((given, output))


class ProgramModel(TorchModel):
    """What torch.export wrote."""

    def __init__(self, program: Any, options: RunOptions, name: str | None = None, digest: str = "") -> None:
        self._program, self._digest = program, digest
        shape = _input_shape(program)
        self.fixed_batch = shape[0] if shape and isinstance(shape[0], int) else None
        super().__init__(_Plain(program), replace(options, image=image_options(options.image, shape)), name)

    def _moved(self, module: nn.Module) -> nn.Module:
        inner: nn.Module = self._program.module()
        if self.device.type == "cpu" and self.dtype == torch.float32:
            return inner
        with quiet():  # copied, for the weights are the program's own
            return copy.deepcopy(inner).to(self.device, self.dtype)

    def digest(self) -> str:
        return self._digest or digest_of(self._program.module())

    def _plain(self) -> TorchModel:
        from opcal.extract.models.pytorch import full_precision

        return ProgramModel(self._program, full_precision(self.options), self.name)

    def _sent(self, batch: Any) -> Any:
        sent = super()._sent(batch)
        return filled(sent, self.fixed_batch) if self.fixed_batch and isinstance(sent, Tensor) else sent

    def _find(self, sent: Any, **how: Any) -> taps.Tap:
        graph_module: Any = self.module
        catches = _with_catches(graph_module, self.options.layer)
        output = logits_of(self._call(sent))
        calls = [
            taps.Call(catch.name, "dense node", *catch.seen[0], _head(graph_module, node, catch.seen[0][0]), 0, catch)
            for node, catch in catches
            if catch.seen
        ]
        if not calls:
            raise ModelError(taps.none_found("the exported program", self.options.layer))
        tap = taps.choose(calls, output, **how)
        _keep(graph_module, tap.call.module)
        return tap

    def _call(self, sent: Any) -> Any:
        if isinstance(sent, dict):
            return self.module(**sent)
        return self.module(*sent) if isinstance(sent, tuple) else self.module(sent)

    def _hook(self, tap: taps.Tap) -> None:
        pass

    def run(self, batch: Any) -> Any:
        features, logits = super().run(batch)
        n = len(batch) if isinstance(batch, Tensor) else len(features)
        return features[:n], logits[:n]

    def _outputs(self, sent: Any) -> tuple[Tensor, Tensor]:
        assert self.tap is not None, "examine comes first"
        catch = self.tap.call.module
        catch.seen.clear()
        output = logits_of(self._call(sent))
        given, own = catch.seen.pop()
        return split(given, own, output, self.tap.relation)


class _Plain(nn.Module):
    """Stands for a program where a module is asked for: it has no mode and no device of its own."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = [program]


def filled(batch: Tensor, n: int) -> Tensor:
    """A batch of exactly n rows, the last one repeated: the program was exported for so many."""
    return torch.cat([batch, batch[-1:].expand(n - len(batch), *batch.shape[1:])]) if len(batch) < n else batch


def image_options(options: ImageOptions, shape: list[Any]) -> ImageOptions:
    """Size and channels as the model's input says, where the user says nothing."""
    if len(shape) != 4 or not all(isinstance(n, int) for n in shape[1:]):
        return options
    size = options.size or (shape[2], shape[3])
    return replace(options, size=size, channels=1 if shape[1] == 1 else options.channels)


def _input_shape(program: Any) -> list[Any]:
    user = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in user and hasattr(node.meta.get("val"), "shape"):
            return [n if isinstance(n, int) else str(n) for n in node.meta["val"].shape]
    return []


def _kind(node: fx.Node) -> str | None:
    name = getattr(node.target, "__name__", "").split(".")[0]
    return name if node.op == "call_function" and name in DENSE and "aten" in str(node.target) else None


def _with_catches(module: fx.GraphModule, layer: str | None) -> list[tuple[fx.Node, _Catch]]:
    found = []
    for node in list(module.graph.nodes):
        kind = _kind(node)
        if kind is None or (layer is not None and layer not in (node.name, *_modules_of(node))):
            continue
        catch = _Catch(_name(node))
        module.add_module(f"opcal_{node.name}", catch)
        with module.graph.inserting_after(node):
            module.graph.call_module(f"opcal_{node.name}", (node.args[DENSE[kind][0]], node))
        found.append((node, catch))
    module.recompile()
    return found


def _modules_of(node: fx.Node) -> list[str]:
    """Names of the modules that a node came from, the innermost last."""
    stack = node.meta.get("nn_module_stack") or {}
    return [str(path).removeprefix("L['self'].") for path, _ in stack.values()]


def _name(node: fx.Node) -> str:
    return next(iter(reversed(_modules_of(node))), "") or node.name


def _keep(module: fx.GraphModule, chosen: _Catch) -> None:
    """Only the chosen node goes on being caught."""
    for node in list(module.graph.nodes):
        ours = node.op == "call_module" and str(node.target).startswith("opcal_")
        if ours and module.get_submodule(str(node.target)) is not chosen:
            module.graph.erase_node(node)
    module.recompile()
    chosen.seen.clear()


def _head(module: fx.GraphModule, node: fx.Node, given: Tensor) -> tuple[Tensor, Tensor] | None:
    kind = _kind(node)
    assert kind is not None
    _, weight_at, bias_at = DENSE[kind]
    weight = _constant(module, node.args[weight_at])
    bias = _constant(module, node.args[bias_at]) if bias_at is not None and len(node.args) > bias_at else None
    return dense_head(kind, weight, bias, given)


def dense_head(kind: str, weight: Any, bias: Any, given: Tensor) -> tuple[Tensor, Tensor] | None:
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        return None
    if kind == "conv2d":
        if given.shape[1:] != weight.shape[1:]:
            return None
        weight = weight.flatten(1)
    elif kind != "linear":
        weight = weight.T
    return weight, bias if isinstance(bias, Tensor) else torch.zeros(len(weight))


def _constant(module: fx.GraphModule, node: Any) -> Tensor | None:
    """A weight, or one turned round."""
    if not isinstance(node, fx.Node):
        return None
    if node.op == "get_attr":
        found: Any = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return found if isinstance(found, Tensor) else None
    turned = getattr(node.target, "__name__", "").split(".")[0] in ("permute", "t", "transpose", "numpy_T")
    inner = _constant(module, node.args[0]) if turned else None
    return None if inner is None else inner.T


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
        from opcal.extract.models.pytorch import full_precision

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
