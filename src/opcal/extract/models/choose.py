"""From what the user points at to a model."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from opcal.errors import MissingDependency, ModelError
from opcal.extract.models.options import RunOptions

EXTRA = {"torch": "torch", "transformers": "huggingface", "onnxruntime": "onnx", "onnx": "onnx", "skops": "skops"}
FORMS = (
    "file.py:factory, a Hugging Face folder, an .onnx file, an exported program (.pt2), TorchScript (.pt), "
    "or a scikit-learn pipeline (.skops)"
)


def as_model(model: Any, options: RunOptions) -> Any:  # noqa: PLR0911  one line a kind
    """A path, a torch module or exported program, a scikit-learn estimator, or a function."""
    if isinstance(model, (str, Path)):
        return _of_path(str(model), options)
    if hasattr(model, "examine") and hasattr(model, "run"):
        return model
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__}
    if "transformers.modeling_utils.PreTrainedModel" in kinds:
        return _backend("huggingface").of_module(model, options)
    if any(name.startswith("torch.jit.") for name in kinds):
        return _backend("scripts").of_script(model, options)
    if "torch.export.exported_program.ExportedProgram" in kinds:
        return _backend("programs").of_program(model, options)
    if "torch.nn.modules.module.Module" in kinds:
        return _backend("pytorch").TorchModel(model, options)
    if "onnx.onnx_ml_pb2.ModelProto" in kinds or type(model).__name__ == "ModelProto":
        return _backend("onnx").OnnxModel(model, options)
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        return _backend("sklearn").SklearnModel(model, options)
    if callable(model):
        return _backend("function").FunctionModel(model, options)
    raise ModelError(
        f"model is a {type(model).__name__}: expected a torch module, a scikit-learn estimator, a function "
        f"that returns (features, logits), or a path to {FORMS}"
    )


def _of_path(text: str, options: RunOptions) -> Any:
    file, colon, factory = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _of_factory(Path(file), factory, options)
    path = Path(text)
    if not path.exists():
        raise ModelError(f"{path} does not exist: a model is {FORMS}; nothing is downloaded")
    if path.is_dir():
        return _of_folder(path, options)
    suffix = path.suffix.lower()
    if suffix == ".py":
        raise ModelError(f"{path} names no factory: write {path.name}:NAME, where NAME() returns the model")
    if suffix == ".onnx":
        return _backend("onnx").OnnxModel.load(path, options)
    if suffix == ".skops":
        return _backend("sklearn").SklearnModel.load(path, options)
    return _of_archive(path, options)


def _of_folder(path: Path, options: RunOptions) -> Any:
    if (path / "config.json").exists():
        return _backend("huggingface").load(path, options)
    onnx = sorted(path.glob("*.onnx"))
    if len(onnx) == 1:
        return _backend("onnx").OnnxModel.load(onnx[0], options)
    raise ModelError(f"{path} holds no config.json: a Hugging Face folder is what save_pretrained writes")


def _of_archive(path: Path, options: RunOptions) -> Any:
    names = _names_in(path)
    if any("/code/" in name for name in names):
        return _backend("scripts").load_script(path, options)
    if any(name.endswith("archive_format") or "serialized_exported_program" in name for name in names):
        return _backend("programs").load_program(path, options)
    if path.suffix.lower() == ".safetensors" or any(name.endswith("data.pkl") for name in names):
        raise ModelError(
            f"{path} holds weights without the model's code: write a function that builds the model and loads them, "
            "and pass file.py:function"
        )
    if path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
        raise ModelError(
            f"{path} is a pickle, which may run any code when it is loaded: opcal never unpickles; "
            "save it with skops.io.dump, or pass file.py:factory"
        )
    raise ModelError(f"{path} is no model that is known: expected {FORMS}")


def _names_in(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return []


def _of_factory(file: Path, name: str, options: RunOptions) -> Any:
    """What the user's own function returns: a model, a pair (model, transform), or itself where it takes a batch."""
    thing = function_of(file, name)
    if callable(thing) and not hasattr(thing, "parameters") and not hasattr(thing, "predict"):
        if _backend("function").takes_a_batch(thing):
            return _backend("function").FunctionModel(thing, options, name)
        try:
            thing = thing()
        except Exception as error:  # whatever a stranger's function raises
            raise _raised(f"{file}:{name}", error) from error
    if isinstance(thing, tuple) and len(thing) == 2 and callable(thing[1]):
        from dataclasses import replace

        thing, options = thing[0], replace(options, transform=options.transform or thing[1])
    model = as_model(thing, options)
    if hasattr(model, "name"):
        model.name = f"{file.name}:{name}"
    return model


def function_of(file: Path, name: str) -> Any:
    """An object of a Python file of the user's, which is run."""
    if not file.exists():
        raise ModelError(f"{file} does not exist: name a Python file and a function in it, as model.py:make")
    spec = importlib.util.spec_from_file_location(f"opcal_user_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a stranger's file raises
        raise _raised(file, error) from error
    finally:
        sys.path.remove(str(file.resolve().parent))
    if not hasattr(module, name):
        have = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == spec.name]
        raise ModelError(f"{file} has no {name!r}: it has {', '.join(have) or 'no function'}")
    return getattr(module, name)


def _raised(where: Path | str, error: Exception) -> ModelError:
    told = str(error).strip().splitlines()
    return ModelError(
        f"{where} raises {type(error).__name__} ({told[0] if told else ''}): run it by itself to see where"
    )


def _backend(name: str) -> Any:
    try:
        return import_module(f"opcal.extract.models.{name}")
    except ImportError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRA:
            raise
        raise MissingDependency(f"this model needs {package}: pip install 'opcal[{EXTRA[package]}]'") from error
