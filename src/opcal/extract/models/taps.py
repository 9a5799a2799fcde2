"""The last linear layer of a torch module, found by running it once, and its input, caught by a hook."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from opcal.errors import ModelError

TOLERANCE = 1e-4
"""Of the largest logit, in float32; 2e-2 in half precision."""


LAST = 8
"""Calls that are looked at: what earlier layers are given is not kept, it would fill the memory."""


@dataclass(frozen=True)
class Call:
    """One use of a linear layer within a forward pass."""

    name: str
    kind: str
    input: Tensor
    output: Tensor
    head: tuple[Tensor, Tensor] | None = None
    """Weight [K, d] and bias [K]."""
    nth: int = 0
    """Which of the layer's calls this was, for layers that are used more than once."""
    module: Any = None


@dataclass(frozen=True)
class Tap:
    """Where features and logits are taken."""

    call: Call
    relation: str
    """How the model's output follows from the layer's: "same", "softmax", "log softmax", "sigmoid" or "other"."""
    output: Tensor
    """The model's, on the items looked at."""

    @property
    def name(self) -> str:
        return self.call.name


def is_linear(module: nn.Module) -> bool:
    return isinstance(module, (nn.Linear, nn.Conv2d)) or type(module).__name__ == "Conv1D"


def find(module: nn.Module, forward: Callable[[], Tensor], layer: str | None, *, exact: bool, tolerance: float) -> Tap:
    """The last linear layer whose output is the model's, or the named layer."""
    with recorded(module, layer) as calls, torch.inference_mode():
        output = forward()
    if not calls:
        raise ModelError(none_found(type(module).__name__, layer))
    return choose(calls, output, exact=exact, tolerance=tolerance)


def choose(calls: Sequence[Call], output: Tensor, *, exact: bool, tolerance: float) -> Tap:
    """The last of the calls from whose output the model's follows; `exact`: there must be one."""
    for call in reversed(calls):
        if relation := _relation(call, output, tolerance):
            return Tap(call, relation, output)
    last = calls[-1]
    if exact:
        raise ModelError(
            f"head(features) differs from the logits by {_gap(last.output, output)}: {last.name!r} is the last linear "
            "layer, but the model goes on after it; name the right one with --layer, keep features and logits without "
            "a head by --no-head (head=False), or pass a function that returns (features, logits)"
        )
    return Tap(last, "other", output)


@contextmanager
def recorded(module: nn.Module, layer: str | None) -> Iterator[deque[Call]]:
    calls: deque[Call] = deque(maxlen=LAST)
    counts: dict[str, int] = {}

    def recorder(name: str) -> Callable[..., None]:
        def record(of: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            nth = counts[name] = counts.get(name, -1) + 1
            inner = isinstance(output, Tensor) and output.ndim == 4 and output.shape[2:] != (1, 1)
            if inputs and isinstance(output, Tensor) and output.ndim > 1 and (not inner or layer is not None):
                head = head_of(of, inputs[0])
                calls.append(Call(name, type(of).__name__, inputs[0], output, head, nth, of))

        return record

    named = dict(module.named_modules())
    if layer is not None and layer not in named:
        linear = [name for name, m in named.items() if is_linear(m)]
        raise ModelError(f"the model has no layer {layer!r}: its linear layers are {', '.join(linear[-8:]) or 'none'}")
    chosen = {n: m for n, m in named.items() if (n == layer if layer is not None else is_linear(m))}
    hooks = [m.register_forward_hook(recorder(n)) for n, m in chosen.items()]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _relation(call: Call, output: Tensor, tolerance: float) -> str | None:
    """How the output follows from this layer's, if it does."""
    own = rows(call.output, output)
    if own is None:
        return None
    own, seen = own.float(), output.reshape(len(output), -1).float()
    if own.shape != seen.shape:
        return None
    maps: dict[str, Callable[[Tensor], Tensor]] = {"same": lambda x: x}
    if own.shape[1] > 1:
        maps |= {"softmax": lambda x: x.softmax(1), "log softmax": lambda x: x.log_softmax(1)}
    else:
        maps |= {"sigmoid": torch.sigmoid}
    for name, of in maps.items():
        if (of(own) - seen).abs().max() <= tolerance * max(1.0 if name != "same" else 0.0, float(seen.abs().max())):
            return name
    return None


def rows(tensor: Tensor, output: Tensor) -> Tensor | None:
    """A layer's output as [n, K]; of [n, length, K] the place in each sequence that became the model's output."""
    n = len(output)
    if tensor.ndim == 4 and tensor.shape[2:] == (1, 1):
        tensor = tensor.flatten(1)
    if len(tensor) != n or tensor.ndim not in (2, 3):
        return None
    if tensor.ndim == 2:
        return tensor
    if tensor.shape[2] != output.shape[-1] or output.ndim != 2:
        return None
    return tensor[torch.arange(n, device=tensor.device), places(tensor, output)]


def places(tensor: Tensor, output: Tensor) -> Tensor:
    """Where along [n, length, K] the row nearest to the output [n, K] stands."""
    return (tensor - output[:, None]).abs().amax(2).argmin(1)


def head_of(module: Any, given: Tensor) -> tuple[Tensor, Tensor] | None:
    """Weight [K, d] and bias [K] of a linear layer; a 1×1 output of a convolution is linear in its whole window."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not is_linear(module):
        return None
    if isinstance(module, nn.Conv2d):
        if module.groups != 1 or given.shape[2:] != weight.shape[2:]:
            return None
        weight = weight.flatten(1)
    elif not isinstance(module, nn.Linear):
        weight = weight.T  # transformers' Conv1D keeps [d, K]
    bias = getattr(module, "bias", None)
    return weight, bias if isinstance(bias, Tensor) else torch.zeros(len(weight), device=weight.device)


def _gap(found: Tensor, output: Tensor) -> str:
    if found.numel() != output.numel():
        return f"shape ({tuple(found.shape)} against {tuple(output.shape)})"
    return f"{float((found.flatten() - output.flatten()).abs().max()):.3g}"


def none_found(kind: str, layer: str | None) -> str:
    if layer is not None:
        return f"layer {layer!r} is not used in the model's forward pass, or gives no tensor: name another with --layer"
    return (
        f"no linear layer was found in {kind}: name the layer whose input is the representation with "
        "--layer, or pass a function that returns (features, logits)"
    )
