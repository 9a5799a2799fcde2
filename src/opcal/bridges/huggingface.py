"""A Hugging Face classification pipeline that adds a calibrated confidence to what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from opcal.artifact import Artifact, load
from opcal.bridges.torch import head_of, judged_of
from opcal.errors import InvalidInput


class CalibratedPipeline:
    """`pipeline(...)` of text or image classification, called as before; its labels and scores stay as they are.

    Each answer gets `confidence` (calibrated, of the predicted label), `sd` and `outside`. `layer` names the linear
    layer that makes the logits, by default the last one with as many outputs as the artefact has classes.
    """

    def __init__(self, pipeline: Any, artifact: Artifact | str | Path, layer: str | None = None) -> None:
        if not hasattr(pipeline, "model") or not hasattr(pipeline, "postprocess"):
            raise InvalidInput(f"pipeline is a {type(pipeline).__name__}: expected one of transformers.pipeline(...)")
        self.pipeline = pipeline
        self.artifact = artifact if isinstance(artifact, Artifact) else load(artifact)
        self._seen: list[Tensor] = []
        head = head_of(pipeline.model, layer, self.artifact.manifest.layout.classes)
        head.register_forward_pre_hook(self._look)

    def _look(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._seen[:] = [inputs[0].detach()]

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """One input or a list of them."""
        many = isinstance(inputs, (list, tuple))
        found = [self._one(item, options) for item in (inputs if many else [inputs])]
        return found if many else found[0]

    def _one(self, item: Any, options: dict[str, Any]) -> Any:
        before, during, after = self.pipeline._sanitize_parameters(**options)
        pipe = self.pipeline
        with torch.no_grad():
            model_inputs = pipe.preprocess(item, **{**pipe._preprocess_params, **before})
            outputs = pipe.forward(model_inputs, **{**pipe._forward_params, **during})
        judged = judged_of(self.artifact, self._seen.pop(), outputs["logits"])
        said = pipe.postprocess(outputs, **{**pipe._postprocess_params, **after})
        more = {
            "confidence": float(judged.confidence[0]),
            "sd": float(judged.sd[0]),
            "outside": bool(judged.outside[0]),
        }
        if isinstance(said, list):
            return [answer | (more if rank == 0 else {}) for rank, answer in enumerate(said)]
        return said | more
