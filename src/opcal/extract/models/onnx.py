"""ONNX: the last dense layer is found in the graph, its input is exposed, and ONNX Runtime gives both in one run."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from opcal.errors import ModelError, UnknownOption
from opcal.extract.models.inputs import array_batch
from opcal.extract.models.onnxgraph import Graph
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.rows import About, FloatArray, Pair
from opcal.extract.sources.choose import Wants
from opcal.extract.sources.iterables import Sized

NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
WHOLE = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}


class OnnxModel:
    classes: tuple[str, ...] | None = None

    def __init__(
        self, model: Any, options: RunOptions, name: str = "ONNX model", folder: Path | None = None, digest: str = ""
    ) -> None:
        if options.precision != "float32":
            raise UnknownOption("precision is for torch models: convert the ONNX model itself")
        self.name, self.notes, self._digest = name, list[str](), digest
        self._folder = folder
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._graph = Graph(self._model.graph, options.layer, need_head=options.head)
        self._session = _session(self._model, options, folder)
        self.inputs = {one.name: one for one in self._session.get_inputs()}
        shape = next(iter(self.inputs.values())).shape if self.inputs else []
        self.options = replace(options, image=_image_options(options.image, shape))
        self.fixed_batch = shape[0] if shape and isinstance(shape[0], int) else None
        self._processor, kind = _processor(options)
        self.wants = Wants(kind)

    @classmethod
    def load(cls, path: Path, options: RunOptions) -> OnnxModel:
        try:
            model = onnx.load(path, load_external_data=False)
        except Exception as error:  # protobuf's own errors have no common kind
            raise ModelError(f"{path} cannot be read as ONNX ({error}): export it again") from error
        return cls(model, options, path.name, path.resolve().parent, _hash(path, model))

    def digest(self) -> str:
        return self._digest or hashlib.sha256(self._model.SerializeToString(deterministic=True)).hexdigest()[:32]

    def prepare(self, values: Any) -> dict[str, Any]:
        if self.options.collate is not None:
            values = self.options.collate(list(values))
        elif self.options.transform is not None:
            values = [np.asarray(self.options.transform(value)) for value in values]
        if self._processor is not None:
            return self._through_processor(values)
        batch = values.batch if isinstance(values, Sized) else values
        if not isinstance(batch, dict):
            if len(self.inputs) != 1:
                raise ModelError(
                    f"the model takes {', '.join(self.inputs)}: pass --processor FOLDER with its tokenizer, or items "
                    "that are mappings with these names"
                )
            batch = {next(iter(self.inputs)): array_batch(batch, self.options.image)}
        return {name: np.asarray(batch[name]).astype(self._dtype(name), copy=False) for name in self.inputs}

    def _through_processor(self, values: Any) -> dict[str, Any]:
        from opcal.extract.models.huggingface import processed

        made = {
            name: tensor.numpy()
            for name, tensor in processed(self._processor, self.wants.kind, values, self.options.max_length).items()
        }
        if len(self.inputs) == 1 and not set(made) & set(self.inputs):  # pixel values under a name of one's own
            made = dict(zip(self.inputs, made.values(), strict=False))
        if missing := [name for name in self.inputs if name not in made]:
            raise ModelError(
                f"the model takes {', '.join(missing)}, which the processor does not make ({', '.join(made)})"
            )
        return {name: made[name].astype(self._dtype(name), copy=False) for name in self.inputs}

    def _dtype(self, name: str) -> Any:
        kind = self.inputs[name].type
        if kind not in NUMBERS | WHOLE:
            raise ModelError(f"the model's input {name!r} is a {kind}: expected numbers")
        return (NUMBERS | WHOLE)[kind]

    def examine(self, batch: dict[str, Any]) -> tuple[About, Pair]:
        features, logits = self.run(batch)
        about = About(f"{self._graph.told}, {features.shape[1]} numbers", features.shape[1], logits.shape[1])
        head = self._head(features.shape[1])
        if head is not None:
            about = replace(about, head=_checked(head, features, logits, self._graph.told))
        return about, (features, logits)

    def _head(self, width: int) -> Pair | None:
        found = self._graph.head
        if found is None:
            return None
        base = "" if self._folder is None else str(self._folder)
        weight = numpy_helper.to_array(found.weight, base).astype(np.float32) * found.scale
        weight = weight if found.turned else weight.T
        weight = weight.reshape(len(weight), -1)
        bias = None if found.bias is None else numpy_helper.to_array(found.bias, base).astype(np.float32).ravel()
        bias = np.zeros(len(weight), np.float32) if bias is None else np.broadcast_to(bias, len(weight)).copy()
        if len(weight) == 1:
            weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
        return weight, bias

    def run(self, batch: dict[str, Any]) -> Pair:
        n = len(next(iter(batch.values())))
        if self.fixed_batch:
            batch = {name: _filled(values, self.fixed_batch) for name, values in batch.items()}
        try:
            features, logits = self._session.run([self._graph.features, self._graph.logits], batch)
        except Exception as error:  # ONNX Runtime's errors have no public classes
            shapes = {name: values.shape for name, values in batch.items()}
            wanted = {name: one.shape for name, one in self.inputs.items()}
            raise ModelError(
                f"{self.name} cannot take the data as they come ({shapes}, it takes {wanted}): "
                f"{str(error).splitlines()[0]}; pass --size, --channels, --inputs or --preprocess as it expects"
            ) from error
        return _rows(features[:n]), _logits(logits[:n])

    def close(self) -> None:
        pass


def _session(model: Any, options: RunOptions, folder: Path | None) -> Any:
    wanted = "cpu" if options.device == "auto" else options.device.split(":")[0]
    provider = PROVIDERS.get(wanted)
    if provider is None or provider not in onnxruntime.get_available_providers():
        have = ", ".join(onnxruntime.get_available_providers())
        raise UnknownOption(f"device is {options.device!r}, but this ONNX Runtime has {have}: pass --device cpu")
    how = onnxruntime.SessionOptions()
    how.log_severity_level = 3
    if options.threads is not None:
        how.intra_op_num_threads = options.threads
    if folder is not None:
        how.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), how, providers=[provider])
    except Exception as error:  # ONNX Runtime's errors have no public classes
        raise ModelError(
            f"ONNX Runtime cannot run the model ({str(error).splitlines()[0]}): export it again"
        ) from error


def _processor(options: RunOptions) -> tuple[Any, str | None]:
    if options.processor is None:
        return None, None
    from opcal.extract.models.huggingface import processor_of

    return processor_of(options.processor)


def _image_options(options: ImageOptions, shape: list[Any]) -> ImageOptions:
    if len(shape) != 4:
        return options
    fixed = isinstance(shape[2], int) and isinstance(shape[3], int)
    size = options.size or ((shape[2], shape[3]) if fixed else None)
    return replace(options, size=size, channels=1 if shape[1] == 1 else options.channels)


def _filled(values: Any, n: int) -> Any:
    return np.concatenate([values, np.repeat(values[-1:], n - len(values), axis=0)]) if len(values) < n else values


def _rows(values: Any) -> FloatArray:
    return np.ascontiguousarray(np.asarray(values, np.float32).reshape(len(values), -1))


def _logits(values: Any) -> FloatArray:
    logits = _rows(values)
    return np.column_stack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits


def _checked(head: Pair, features: FloatArray, logits: FloatArray, told: str) -> Pair:
    shape = (logits.shape[1], features.shape[1])
    if head[0].shape == shape:
        gap = float(np.abs(features.astype(np.float64) @ head[0].T + head[1] - logits).max())
        if gap <= 1e-4 * max(1.0, float(np.abs(logits).max())):
            return head
        why = f"differs from the logits by {gap:.3g}"
    else:
        why = f"needs a weight of shape {shape}, found {head[0].shape}"
    raise ModelError(
        f"head(features) {why}: {told} is not what the logits follow from; name another node with --layer, "
        "or keep features and logits without a head by --no-head (head=False)"
    )


def _hash(path: Path, model: Any) -> str:
    """Of the file and of the weights beside it."""
    from opcal.extract.models.files import hash_of

    places = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    parts = [
        hash_of(path),
        *(hash_of(path.parent / place) for place in sorted(places) if (path.parent / place).exists()),
    ]
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()[:32]
