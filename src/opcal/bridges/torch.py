"""A torch module around the user's: the logits stay as they are, and each prediction gets its calibrated confidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from opcal.artifact import Artifact, load
from opcal.artifact.artifact import Judged
from opcal.core.method import Outputs
from opcal.errors import IncompatiblePool, InvalidInput
from opcal.pool.pool import softmax_confidence


class Calibrated(NamedTuple):
    """What a `CalibratedModule` gives."""

    logits: Tensor  # [N, K], the model's own
    confidence: Tensor  # [N], calibrated
    sd: Tensor  # [N]
    outside: Tensor  # [N], like nothing that was seen


class CalibratedModule(nn.Module):  # type: ignore[misc]
    """`model` with a calibrated confidence beside its logits.

    `layer` names the linear layer that makes the logits (of `model.named_modules()`); by default the last one with as
    many outputs as the artefact has classes. Its input, seen in the same forward pass, is the representation.
    """

    def __init__(self, model: nn.Module, artifact: Artifact | str | Path, layer: str | None = None) -> None:
        super().__init__()
        self.model = model
        self.artifact = artifact if isinstance(artifact, Artifact) else load(artifact)
        self.head = head_of(model, layer, self.artifact.manifest.layout.classes)
        # A list, so that the hook's tensor is no buffer of the module's state.
        self._seen: list[Tensor] = []
        self.head.register_forward_pre_hook(self._look)

    def _look(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._seen[:] = [inputs[0].detach()]

    def forward(self, *args: Any, **kwargs: Any) -> Calibrated:
        self._seen.clear()
        out = self.model(*args, **kwargs)
        logits: Tensor = getattr(out, "logits", out)
        if not self._seen:
            raise InvalidInput("the model did not run the linear layer that makes its logits: name another layer=")
        judged = judged_of(self.artifact, self._seen.pop(), logits)
        confidence, sd = (torch.from_numpy(a).to(logits.device, torch.float32) for a in (judged.confidence, judged.sd))
        return Calibrated(logits, confidence, sd, torch.from_numpy(judged.outside).to(logits.device))


def head_of(model: nn.Module, layer: str | None, classes: int | None) -> nn.Module:
    if classes is None:
        raise InvalidInput("the artefact was made without logits: calibrate with the model's logits")
    if layer is not None:
        found = dict(model.named_modules()).get(layer)
        if found is None:
            raise InvalidInput(f"layer is {layer!r}, which the model does not have: see model.named_modules()")
        return found
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == classes]
    if not linear:
        raise InvalidInput(f"the model has no linear layer with {classes} outputs: name it with layer=")
    return linear[-1]


def judged_of(artifact: Artifact, features: Tensor, logits: Tensor) -> Judged:
    """What the artefact says of a batch of the model's own tensors."""
    z, h = (a.detach().to("cpu", torch.float32).numpy() for a in (features, logits))
    layout = artifact.manifest.layout
    if z.ndim != 2 or h.ndim != 2 or (z.shape[1], h.shape[1]) != (layout.features, layout.classes):
        raise IncompatiblePool(
            f"the layer got {list(z.shape)} and gave logits {list(h.shape)}, the artefact was made for {layout}: "
            "name the layer whose input was calibrated"
        )
    return artifact.judged(Outputs(z, *softmax_confidence(h), h))
