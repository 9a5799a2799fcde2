"""A calibrator as an ONNX model: alone, or joined behind the user's own model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from opcal.artifact.artifact import Artifact
from opcal.artifact.onnx import methods
from opcal.artifact.onnx.field import Inputs
from opcal.artifact.onnx.graph import OPSET, Graph
from opcal.artifact.onnx.paper import paper
from opcal.artifact.scorers import AutoScorer, CorrectnessScorer, PaperScorer, ResidualScorer, TemperatureScorer
from opcal.artifact.writing import replace_file
from opcal.errors import InvalidInput, MissingDependency

WRITERS: dict[type[Any], Callable[[Graph, Any, Inputs], tuple[str, str]]] = {
    AutoScorer: methods.auto,
    CorrectnessScorer: methods.right_or_wrong,
    TemperatureScorer: methods.temperature,
    ResidualScorer: methods.residuals,
    PaperScorer: paper,
}
IR = 8
"""Of ONNX 1.12: runtimes of 2022 and later read it."""
LARGEST = 2**31 - 1
LINEAR = {"Gemm", "MatMul"}


def export_onnx(artifact: Artifact, path: str | Path) -> Path:
    """Inputs: features [N, d] and logits [N, K], float32, or confidence_in [N], double, and predicted_in [N], int64.

    Outputs: confidence and sd [N], float32, and, from logits, predicted [N], int64.
    """
    onnx = _onnx()
    layout, value = artifact.manifest.layout, onnx.helper.make_tensor_value_info
    single, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    inputs = [value("features", single, ["N", layout.features])]
    if layout.classes is None:
        inputs += [value("confidence_in", onnx.TensorProto.DOUBLE, ["N"]), value("predicted_in", whole, ["N"])]
    else:
        inputs.append(value("logits", single, ["N", layout.classes]))
    g = Graph()
    outputs = _written(g, artifact, *(i.name for i in inputs))
    graph = onnx.helper.make_graph(g.nodes, "opcal", inputs, _infos(outputs), g.constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR)
    return _save(model, artifact, Path(path))


def join(
    artifact: Artifact, model: str | Path, path: str | Path, *, features: str | None = None, logits: str | None = None
) -> Path:
    """The user's model with `confidence`, `sd` and `predicted` as three more outputs; its own outputs are unchanged.

    `logits` is one of its values, by default its first output (what enters the softmax, where it ends in one);
    `features` by default what enters the linear layer that makes the logits.
    """
    onnx = _onnx()
    if artifact.manifest.layout.classes is None:
        raise InvalidInput("the artefact was made without logits: only a calibrator with logits can be joined")
    try:
        mine = onnx.load(str(model))
    except Exception as error:
        raise InvalidInput(f"{model} cannot be read as an ONNX model ({str(error)[:200]})") from error
    mine = _recent(mine)
    made_by = {name: node for node in mine.graph.node for name in node.output}
    logits = logits or _logits(mine, made_by)
    features = features or _features(made_by, logits)
    known = {*made_by, *(i.name for i in mine.graph.input)}
    for role, name in (("features", features), ("logits", logits)):
        if name not in known:
            raise InvalidInput(f"{role} is {name!r}, which {model} does not compute: it computes {_some(known)}")
    g = Graph(next(o.version for o in mine.opset_import if o.domain in ("", "ai.onnx")))
    taken = {o.name for o in mine.graph.output} | known
    outputs = _written(g, artifact, features, logits, taken=taken)
    mine.graph.node.extend(g.nodes)
    mine.graph.initializer.extend(g.constants)
    mine.graph.output.extend(_infos(outputs))
    return _save(mine, artifact, Path(path))


def _written(g: Graph, artifact: Artifact, *names: str, taken: set[str] = frozenset()) -> dict[str, int]:  # type: ignore[assignment]
    """All nodes; gives the outputs' names and types."""
    features = g.double(g.op("Flatten", names[0], axis=1))
    outputs = {_free(name, taken): kind for name, kind in (("confidence", 1), ("sd", 1), ("predicted", 7))}
    confidence, sd, predicted = outputs
    if artifact.manifest.layout.classes is None:
        column = np.array([-1, 1])
        own, at = g.double(g.op("Reshape", names[1], column)), g.op("Reshape", names[2], column)
        given = Inputs(features, None, own, at)
        del outputs[predicted]
    else:
        h = g.double(g.op("Flatten", names[1], axis=1))
        e = g.exp(g.sub(h, g.top(h)))
        at = g.op("ArgMax", h, axis=1, keepdims=1)
        given = Inputs(features, h, g.div(1.0, g.total(e)), at)
        g.op("Reshape", at, np.array([-1]), out=predicted)
    mean, spread = WRITERS[type(artifact.scorer)](g, artifact.scorer, given)
    for name, column_of in ((confidence, mean), (sd, spread)):
        g.op("Cast", g.op("Reshape", column_of, np.array([-1])), out=name, to=1)
    return outputs


def _free(name: str, taken: set[str]) -> str:
    return f"opcal_{name}" if name in taken else name


def _infos(outputs: dict[str, int]) -> list[Any]:
    helper = _onnx().helper
    return [helper.make_tensor_value_info(name, kind, ["N"]) for name, kind in outputs.items()]


def _logits(model: Any, made_by: dict[str, Any]) -> str:
    first = str(model.graph.output[0].name)
    node = made_by.get(first)
    return str(node.input[0]) if node is not None and node.op_type in ("Softmax", "LogSoftmax") else first


def _features(made_by: dict[str, Any], logits: str) -> str:
    node = made_by.get(logits)
    if node is not None and node.op_type == "Add":
        node = next((made_by[i] for i in node.input if i in made_by and made_by[i].op_type in LINEAR), node)
    if node is None or node.op_type not in LINEAR:
        found = "an input" if node is None else f"a {node.op_type}"
        raise InvalidInput(f"features is missing: {logits!r} comes from {found}, not a linear layer; name the features")
    return str(node.input[0])


def _recent(model: Any) -> Any:
    """Operators as of 2020 or later, which the calibrator's need."""
    if any(o.version < 13 for o in model.opset_import if o.domain in ("", "ai.onnx")):
        from onnx import version_converter

        return version_converter.convert_version(model, 13)
    return model


def _some(names: set[str]) -> str:
    listed = sorted(name for name in names if name)
    return ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")


def _save(model: Any, artifact: Artifact, path: Path) -> Path:
    onnx = _onnx()
    entry = model.metadata_props.add()
    entry.key, entry.value = "opcal", artifact.digest
    if model.ByteSize() > LARGEST:
        raise InvalidInput(
            f"the joined model has {model.ByteSize():,} bytes, one ONNX file holds 2 GB: export it alone"
        )
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        why = str(error).strip().splitlines()[0][:200]
        raise InvalidInput(f"features and logits of the model do not fit {artifact.manifest.layout} ({why})") from error
    replace_file(path, model.SerializeToString())
    return path


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
    except ImportError as error:
        raise MissingDependency("ONNX models need onnx: pip install 'opcal[onnx]'") from error
    return onnx
