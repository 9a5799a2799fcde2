"""PyTorch modules: one forward pass gives the logits, and a pre-hook on the last linear layer the features."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opcal.errors import ModelError
from opcal.extract.models import taps
from opcal.extract.models.options import RunOptions
from opcal.extract.models.tensors import collate, device, digest_of, drift, logits_of, split, to_numpy
from opcal.extract.rows import About, FloatArray, Pair
from opcal.extract.sources.choose import Wants
from opcal.extract.sources.iterables import Sized

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchModel:
    """Any module whose output is its logits, or holds them as `.logits` or first."""

    classes: tuple[str, ...] | None = None
    _processor: Any = None

    def __init__(self, module: nn.Module, options: RunOptions, name: str | None = None) -> None:
        self.options, self.name = options, name or type(module).__name__
        self.device = device(options.device)
        self.dtype = HALF.get(options.precision, torch.float32)
        # A frozen TorchScript module has no mode.
        self._given, self._modes = module, {m: m.training for m in module.modules() if hasattr(m, "training")}
        self.module = self._moved(module.eval() if self._modes else module)
        self._caught: list[Any] = []
        self._hooks: list[Any] = []
        self.tap: taps.Tap | None = None
        self._threads = torch.get_num_threads()
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        self.threads = torch.get_num_threads()
        self.notes: list[str] = []
        self.wants = Wants(self._with_processor())

    def _with_processor(self) -> str | None:
        """The tokenizer or image processor that the user named, and so the kind of data."""
        if self.options.processor is None:
            return None
        from opcal.extract.models.huggingface import processor_of

        self._processor, kind = processor_of(self.options.processor)
        return kind

    def _moved(self, module: nn.Module) -> nn.Module:
        """A copy wherever something would change: the user's module stays as it is."""
        devices = {p.device.type for p in [*module.parameters(), *module.buffers()]}
        half, last = self.dtype != torch.float32, self.channels_last
        if not half and not last and devices <= {self.device.type}:
            return module
        moved = copy.deepcopy(module).to(self.device, self.dtype) if half else copy.deepcopy(module).to(self.device)
        return moved.to(memory_format=torch.channels_last) if last else moved  # type: ignore[call-overload, no-any-return]

    @property
    def channels_last(self) -> bool:
        """Where nothing is said: with half precision or on a GPU, where it is quicker."""
        chosen = self.options.channels_last
        return self.device.type == "cuda" or self.dtype != torch.float32 if chosen is None else chosen

    def digest(self) -> str:
        return digest_of(self._given)

    def prepare(self, values: Any) -> Any:
        if isinstance(values, Sized):
            return values.batch
        if self.options.collate is not None:
            return self.options.collate(list(values))
        if self.options.transform is not None:
            values = [self.options.transform(value) for value in values]
        elif self._processor is not None:
            from opcal.extract.models.huggingface import processed

            return processed(self._processor, self.wants.kind, values, self.options.max_length)
        return collate(values, self.options)

    def _sent(self, batch: Any) -> Any:
        if isinstance(batch, Tensor):
            batch = batch.to(self.device, self.dtype if batch.is_floating_point() else None)
            return (
                batch.contiguous(memory_format=torch.channels_last) if self.channels_last and batch.ndim == 4 else batch
            )
        if isinstance(batch, dict) or hasattr(batch, "keys"):
            return {name: self._sent(batch[name]) for name in batch.keys()}  # noqa: SIM118  BatchEncoding is no dict
        return tuple(self._sent(part) for part in batch) if isinstance(batch, (tuple, list)) else batch

    def _forward(self, batch: Any) -> Tensor:
        if isinstance(batch, dict):
            return logits_of(self.module(**batch))
        return logits_of(self.module(*batch) if isinstance(batch, tuple) else self.module(batch))

    def examine(self, batch: Any) -> tuple[About, Pair]:
        sent = self._sent(batch)
        try:
            with torch.inference_mode():
                tap = self._find(
                    sent,
                    exact=self.options.head and self.options.layer is None,
                    tolerance=taps.TOLERANCE if self.dtype == torch.float32 else 2e-2,
                )
        except (RuntimeError, TypeError, ValueError) as error:
            raise self._refused(error, sent) from error
        self.tap = tap
        self._hook(tap)
        with torch.inference_mode():
            outputs = split(tap.call.input, tap.call.output, tap.output, tap.relation)
        features, logits = (to_numpy(part)[: len(batch) if isinstance(batch, Tensor) else None] for part in outputs)
        head = self._head(tap, features, logits)
        about = About(describe(tap, features.shape[1]), features.shape[1], logits.shape[1], head, self.classes)
        self._measure_drift(batch, (features, logits))
        return about, (features, logits)

    def _find(self, sent: Any, **how: Any) -> taps.Tap:
        return taps.find(self.module, lambda: self._forward(sent), self.options.layer, **how)

    def _refused(self, error: Exception, sent: Any) -> ModelError:
        if isinstance(error, ModelError):
            return error
        shape = tuple(sent.shape) if isinstance(sent, Tensor) else type(sent).__name__
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "out of memory" in why or "can't allocate memory" in why:
            return ModelError(f"{self.name} has no memory for a batch of {shape}: pass a smaller --batch-size ({why})")
        return ModelError(
            f"{self.name} cannot take the data as they come (a batch of {shape}): {why}; "
            "pass a transform or a preprocess function, or --size, --channels, --inputs as the model expects"
        )

    def _hook(self, tap: taps.Tap) -> None:
        def catch(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            self._caught.append((inputs[0], output))

        self._hooks.append(tap.call.module.register_forward_hook(catch))

    def run(self, batch: Any) -> Pair:
        sent = self._sent(batch)
        try:
            with torch.inference_mode():
                features, logits = self._outputs(sent)
        except (RuntimeError, TypeError, ValueError) as error:
            raise self._refused(error, sent) from error
        return to_numpy(features), to_numpy(logits)

    def _outputs(self, sent: Any) -> tuple[Tensor, Tensor]:
        assert self.tap is not None, "examine comes first"
        self._caught.clear()
        output = self._forward(sent)
        given, own = self._caught[self.tap.call.nth]
        self._caught.clear()
        return split(given, own, output, self.tap.relation)

    def _head(self, tap: taps.Tap, features: FloatArray, logits: FloatArray) -> Pair | None:
        found = tap.call.head if self.options.head else None
        if found is None:
            return None
        weight, bias = (to_numpy(part) for part in found)
        return checked_head(weight, bias, features, logits, tap.name, half=self.dtype != torch.float32)

    def _measure_drift(self, batch: Any, half: Pair) -> None:
        if self.dtype == torch.float32:
            return
        plain = self._plain()
        try:
            self.notes.append(drift(plain.examine(batch)[1], half, self.options.precision))
        finally:
            plain.close(restore=False)

    def _plain(self) -> TorchModel:
        """The same in full precision."""
        return type(self)(self._given, full_precision(self.options), self.name)

    def close(self, *, restore: bool = True) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if restore:
            for module, training in self._modes.items():
                module.training = training
            if self.options.threads is not None:
                torch.set_num_threads(self._threads)


def checked_head(
    weight: FloatArray, bias: FloatArray, features: FloatArray, logits: FloatArray, name: str, *, half: bool
) -> Pair:
    """The head, with zeros for class 0 where the model gives one score; refused where it gives other logits."""
    if len(weight) == 1 and logits.shape[1] == 2:
        weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
    if weight.shape == (logits.shape[1], features.shape[1]):
        gap = float(np.abs(features.astype(np.float64) @ weight.T + bias - logits).max())
        if gap <= (2e-2 if half else taps.TOLERANCE) * max(1.0, float(np.abs(logits).max())):
            return weight, bias
        why = f"differs from the logits by {gap:.3g}"
    else:
        why = f"needs a weight of shape {(logits.shape[1], features.shape[1])}, {name!r} has {weight.shape}"
    raise ModelError(
        f"head(features) {why}: {name!r} is not the layer that gives the logits; name another with --layer, keep "
        "features and logits without a head by --no-head (head=False), or pass a function that returns both"
    )


def describe(tap: taps.Tap, width: int) -> str:
    after = "" if tap.relation in ("same", "other") else f", whose output is taken before the {tap.relation}"
    return f"the input of {tap.name or 'the model'} ({tap.call.kind}), {width} numbers{after}"


def full_precision(options: RunOptions) -> RunOptions:
    return replace(options, precision="float32", channels_last=None, threads=None)
