"""Exported programs: the representation is found in the graph and caught on its way."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from opcal.errors import ModelError
from opcal.extract.models import taps
from opcal.extract.models.dense import DENSE, dense_head, quiet
from opcal.extract.models.files import hash_of
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.models.pytorch import TorchModel, full_precision
from opcal.extract.models.tensors import digest_of, logits_of, split


def load_program(path: Path, options: RunOptions) -> TorchModel:
    try:
        with quiet():
            program = torch.export.load(path)
    except Exception as error:  # a broken archive breaks its reader in every way
        raise ModelError(f"{path} cannot be loaded as an exported program ({error}): export it again") from error
    return ProgramModel(program, options, path.name, hash_of(path))


def of_program(program: Any, options: RunOptions) -> TorchModel:
    return ProgramModel(program, options, "exported program")


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
