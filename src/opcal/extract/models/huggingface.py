"""Hugging Face classifiers of images and texts, from a folder, with their own processor or tokenizer; no network."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: nothing is ever fetched
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import torch
import transformers

from opcal.errors import DataError, ModelError
from opcal.extract.models.options import RunOptions
from opcal.extract.models.pytorch import TorchModel, full_precision
from opcal.extract.sources.choose import Wants
from opcal.extract.sources.iterables import Sized

KINDS = {"ForImageClassification": "images", "ForSequenceClassification": "texts"}
AUTO = {"images": "AutoModelForImageClassification", "texts": "AutoModelForSequenceClassification"}
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
LONGEST = 1_000_000
"""Tokenizers without a bound of their own say 10³⁰."""


def load(path: Path, options: RunOptions) -> TorchModel:
    kind = _kind(path)
    try:
        transformers.utils.logging.disable_progress_bar()
        module, told = getattr(transformers, AUTO[kind]).from_pretrained(
            path, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{path} cannot be loaded as a Hugging Face model ({_first(error)}): save it again") from error
    if missing := sorted(told["missing_keys"]):
        raise ModelError(
            f"{path} lacks {len(missing)} weights of its model, {missing[0]} first: they would be random; save it again"
        )
    return HuggingFaceModel(module, options, kind, path, name=path.resolve().name)


def of_module(module: Any, options: RunOptions) -> TorchModel:
    """A model in memory: it needs its processor or tokenizer, unless the data are tensors already."""
    kind = next((k for suffix, k in KINDS.items() if type(module).__name__.endswith(suffix)), None)
    return HuggingFaceModel(module, options, kind, None, name=type(module).__name__)


class HuggingFaceModel(TorchModel):
    def __init__(
        self, module: Any, options: RunOptions, kind: str | None, folder: Path | None, name: str | None = None
    ) -> None:
        super().__init__(module, options, name)
        self._kind, self._folder = kind, folder
        self.wants = Wants(kind)
        self.classes = _class_names(module.config)
        place = options.processor or folder
        ready = options.transform is not None or options.collate is not None
        self._processor = None if ready or place is None or kind is None else load_processor(place, kind)

    def _with_processor(self) -> str | None:
        return None  # its own, or the one of the options, by the model's kind

    def _plain(self) -> TorchModel:
        return HuggingFaceModel(self._given, full_precision(self.options), self._kind, self._folder, self.name)

    def prepare(self, values: Any) -> Any:
        if isinstance(values, Sized) or self.options.transform or self.options.collate:
            return super().prepare(values)
        first = values[0] if len(values) else None
        if isinstance(first, (Mapping, torch.Tensor)) or hasattr(values, "dtype"):
            return super().prepare(values)
        if self._processor is None:
            what = "an image processor" if self._kind == "images" else "a tokenizer"
            raise ModelError(f"{self.name} needs {what} for these data: pass --processor FOLDER (processor=folder)")
        return processed(self._processor, self._kind, values, self.options.max_length)

    def _forward(self, batch: Any) -> torch.Tensor:
        if isinstance(batch, torch.Tensor):
            return super()._forward({"pixel_values" if self._kind == "images" else "input_ids": batch})
        return super()._forward(batch)


def processed(processor: Any, kind: str | None, values: Any, max_length: int | None) -> dict[str, Any]:
    """A batch of texts or images as the model takes it; texts are padded to the longest of the batch."""
    if kind == "texts":
        if not all(isinstance(value, str) for value in values):
            raise DataError("the model takes texts, but the data hold something else: name the column with --text")
        longest = max_length or (processor.model_max_length if processor.model_max_length < LONGEST else None)
        if processor.pad_token is None:
            raise ModelError("the tokenizer has no padding token, which batches need: set one and save it again")
        found = processor(list(values), padding=True, truncation=longest is not None, max_length=longest,
                          return_tensors="pt")  # fmt: skip
        return dict(found)
    if not all(hasattr(value, "convert") for value in values):
        raise DataError("the model takes images, but the data hold something else: name the column with --image")
    return dict(processor([value.convert("RGB") for value in values], return_tensors="pt"))


def processor_of(place: Path) -> tuple[Any, str]:
    """The tokenizer or image processor of a folder, whichever it holds, and the kind of data that it takes."""
    kind = "texts" if any((place / name).exists() for name in TOKENIZERS) else "images"
    return load_processor(place, kind), kind


def load_processor(place: Path, kind: str) -> Any:
    """The tokenizer or image processor of a folder."""
    if not place.is_dir():
        raise ModelError(f"{place} is no folder: --processor names what save_pretrained of a processor wrote")
    if kind == "texts":
        if not any((place / name).exists() for name in TOKENIZERS):
            raise ModelError(_missing(place, "tokenizer", "AutoTokenizer"))
        return _from(transformers.AutoTokenizer, place)
    if not (place / "preprocessor_config.json").exists() and not (place / "processor_config.json").exists():
        raise ModelError(_missing(place, "image processor", "AutoImageProcessor"))
    return _from(transformers.AutoImageProcessor, place, backend="pil")


def _from(loader: Any, place: Path, **options: Any) -> Any:
    try:
        return loader.from_pretrained(place, local_files_only=True, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f"{place}: the processor cannot be loaded ({_first(error)}); save it again") from error


def _missing(place: Path, what: str, loader: str) -> str:
    return (
        f"{place} holds no {what}: save it there ({loader}.from_pretrained(...).save_pretrained({place.name!r})), "
        "or name its folder with --processor"
    )


def _kind(path: Path) -> str:
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}/config.json is no JSON ({error}): save the model again") from error
    names = config.get("architectures") or []
    found = next((kind for name in names for suffix, kind in KINDS.items() if name.endswith(suffix)), None)
    if found is None:
        raise ModelError(
            f"{path} holds {', '.join(names) or 'a model without an architecture'}: expected one whose name ends in "
            f"{' or '.join(KINDS)}; for another, pass file.py:factory"
        )
    return found


def _class_names(config: Any) -> tuple[str, ...] | None:
    """The names of the classes, unless they are only LABEL_0, LABEL_1, …"""
    if getattr(config, "problem_type", None) in ("multi_label_classification", "regression"):
        raise ModelError(
            f"the model is for {config.problem_type.replace('_', ' ')}: opcal calibrates models that choose one class"
        )
    names = getattr(config, "id2label", None) or {}
    if all(str(name) == f"LABEL_{i}" for i, name in names.items()):
        return None
    return tuple(str(names[i]) for i in sorted(names, key=int))


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
