"""What torch models of every form share: batches of tensors, their way to NumPy, devices, hashes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opcal.errors import DataError, ModelError, UnknownOption
from opcal.extract.models import taps
from opcal.extract.models.inputs import array_batch
from opcal.extract.models.options import RunOptions
from opcal.extract.rows import FloatArray, Pair


def split(given: Tensor, own: Tensor, output: Tensor, relation: str) -> tuple[Tensor, Tensor]:
    """Features and logits [n, ...] from a layer's input and output and the model's output."""
    if given.ndim == 3:
        at = torch.arange(len(given), device=given.device), taps.places(own, output)
        given, own = given[at], own[at]
    logits = own if relation in ("softmax", "log softmax", "sigmoid") else output
    logits = logits.reshape(len(logits), -1)
    if logits.shape[1] == 1:  # one score of class 1
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    return given.flatten(1), logits


def collate(values: Any, options: RunOptions) -> Any:
    """One batch from a list of items: tensors, arrays, images, numbers, (input, label) pairs, dicts of these."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, (list, tuple)) and values:
        if isinstance(values[0], (tuple, list)):
            values = [value[0] for value in values]
        if isinstance(values[0], Tensor):
            return _stacked(values)
        if isinstance(values[0], dict):
            return {name: collate([value[name] for value in values], options) for name in values[0]}
    array = array_batch(values, options.image)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _stacked(values: list[Tensor]) -> Tensor:
    try:
        return torch.stack(values)
    except RuntimeError as error:
        raise DataError(f"the items differ in shape ({error}): make them alike, or pass collate=") from error


def logits_of(output: Any) -> Tensor:
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits  # type: ignore[no-any-return]
    if isinstance(output, dict):
        return next((output[n] for n in ("logits", "output", "out") if n in output), next(iter(output.values())))  # type: ignore[no-any-return]
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], Tensor):
        return output[0]
    raise ModelError(
        f"the model returns a {type(output).__name__}: expected a tensor of logits, or something with .logits"
    )


def to_numpy(tensor: Tensor) -> FloatArray:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()


def device(asked: str) -> torch.device:
    """The device asked for; "auto" is a GPU where there is one."""
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(asked)
    except RuntimeError as error:
        raise UnknownOption(f"device is {asked!r}: expected auto, cpu, cuda, cuda:0, … or mps") from error
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}.get(found.type, lambda: True)()
    if not there or (found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count()):
        raise UnknownOption(
            f"device is {asked!r}, but torch {torch.__version__} sees no such device here: pass --device cpu, or "
            "install a torch build and driver for it"
        )
    return found


def digest_of(module: nn.Module) -> str:
    """A hash of all weights and buffers, by name."""
    found = hashlib.sha256(type(module).__name__.encode())
    for name, tensor in sorted(module.state_dict().items()):
        found.update(name.encode())
        if isinstance(tensor, Tensor):
            plain = tensor.detach().cpu().contiguous().reshape(-1)
            found.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            found.update(plain.view(torch.uint8).numpy().data)
    return found.hexdigest()[:32]


def drift(exact: Pair, half: Pair, precision: str) -> str:
    """What half precision changes, in words."""
    features = np.abs(exact[0] - half[0]).mean() / max(float(np.abs(exact[0]).mean()), 1e-12)
    changed = int((exact[1].argmax(1) != half[1].argmax(1)).sum())
    return (
        f"{precision} moves the features by {features:.2%} on {len(exact[0])} items looked at, the logits by at most "
        f"{np.abs(exact[1] - half[1]).max():.2g}, and changes {changed} of their predictions"
    )
