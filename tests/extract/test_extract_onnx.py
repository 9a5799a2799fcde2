"""ONNX: the same features as the torch model that it was exported from; graphs of several makers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from extract_cases import rows
from sklearn.preprocessing import StandardScaler

from opcal import errors
from opcal.extract import extract

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.extract
X = np.random.default_rng(0).standard_normal((45, 3, 16, 16)).astype(np.float32)


class Network(torch.nn.Module):
    def __init__(self, end=False):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
        self.middle, self.head, self.end = torch.nn.Linear(8, 6), torch.nn.Linear(6, 5), end

    def forward(self, x):
        h = self.head(torch.relu(self.middle(torch.relu(self.norm(self.conv(x))).mean((2, 3)))))
        return h.softmax(1) if self.end else h


def exported(model, path, *, dynamo, free=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = torch.from_numpy(X[:4])
        if dynamo:
            shapes = ({0: torch.export.Dim.AUTO},) if free else None
            torch.onnx.export(model.eval(), (some,), str(path), dynamo=True, dynamic_shapes=shapes, verbose=False)
        else:
            axes = {"x": {0: "n"}} if free else None
            torch.onnx.export(model.eval(), (some,), str(path), dynamo=False, input_names=["x"], dynamic_axes=axes)
    return path


@pytest.mark.parametrize("end", [False, True], ids=["logits", "softmax"])
@pytest.mark.parametrize(("dynamo", "free"), [(True, True), (False, True), (False, False)])
def test_features_and_logits_are_those_of_the_torch_model(tmp_path, end, dynamo, free):
    model = Network(end)
    ours = extract(model, X, out=tmp_path / "torch").pool
    found = extract(exported(model, tmp_path / "m.onnx", dynamo=dynamo, free=free), X, out=tmp_path / "onnx")
    np.testing.assert_allclose(found.pool.features, ours.features, atol=1e-4)
    np.testing.assert_allclose(found.pool.logits, ours.logits, atol=1e-4)
    np.testing.assert_allclose(found.pool.head.weight, ours.head.weight, atol=1e-6)
    assert "Gemm" in found.representation


def test_another_layer_can_be_named_and_what_there_is_is_told(tmp_path):
    path = exported(Network(), tmp_path / "m.onnx", dynamo=False)
    with pytest.raises(errors.ModelError, match=r"no node or tensor 'fc'.*Gemm"):
        extract(path, X, out=tmp_path / "pool", layer="fc")
    pool = extract(path, X, out=tmp_path / "pool", layer="/middle/Gemm").pool
    assert pool.features.shape == (45, 8)
    assert pool.head is None


def graph(nodes, weights, out="h", width=6, classes=3):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", kind, ["n", width])],
        [helper.make_tensor_value_info(out, kind, ["n", classes])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Odd(StandardScaler):
    """A type that skops does not know."""


W, B = rows(6, 3, 1), rows(1, 3, 2)[0]


def test_a_product_and_a_sum_are_a_dense_layer_too(tmp_path):
    node = onnx.helper.make_node
    nodes = [node("Relu", ["x"], ["z"]), node("MatMul", ["z", "W"], ["p"]), node("Add", ["B", "p"], ["s"]),
             node("Identity", ["s"], ["h"])]  # fmt: skip
    x = rows(30)
    pool = extract(graph(nodes, {"W": W, "B": B}), x, out=tmp_path / "pool").pool
    np.testing.assert_allclose(pool.features, np.maximum(x, 0), atol=1e-6)
    np.testing.assert_allclose(pool.head.weight, W.T)
    np.testing.assert_allclose(pool.head.bias, B)


def test_graphs_without_a_last_dense_layer_are_told(tmp_path):
    node = onnx.helper.make_node
    ends = [node("Gemm", ["x", "W", "B"], ["p"], name="dense"), node("Tanh", ["p"], ["h"], name="end")]
    with pytest.raises(errors.ModelError, match=r"ends in Tanh .*--layer"):
        extract(graph(ends, {"W": W, "B": B}), rows(30), out=tmp_path / "pool")
    found = extract(graph(ends, {"W": W, "B": B}), rows(30), out=tmp_path / "pool", layer="dense", head=False)
    np.testing.assert_array_equal(found.pool.features, rows(30))
    none = [node("Relu", ["x"], ["h"])]
    with pytest.raises(errors.ModelError, match=r"no (linear|dense) layer"):
        extract(graph(none, {}, classes=6), rows(30), out=tmp_path / "other")


def test_data_that_do_not_fit_and_broken_files_are_told(tmp_path):
    path = exported(Network(), tmp_path / "m.onnx", dynamo=False)
    with pytest.raises(errors.ModelError, match="cannot take the data as they come"):
        extract(path, rows(20), out=tmp_path / "pool")
    (tmp_path / "b.onnx").write_bytes(b"no model")
    with pytest.raises(errors.ModelError, match=r"cannot be read as ONNX|holds no"):
        extract(tmp_path / "b.onnx", X, out=tmp_path / "pool")
    with pytest.raises(errors.UnknownOption, match="--device cpu"):
        extract(path, X, out=tmp_path / "pool", device="cuda")


def test_images_are_resized_to_what_the_graph_takes(tmp_path):
    from extract_cases import image_folder

    path = exported(Network(), tmp_path / "m.onnx", dynamo=False)
    folder = image_folder(tmp_path / "i", n=5, size=(31, 20))
    assert extract(path, folder, out=tmp_path / "pool").items == 5
    by_torch = extract(Network(), folder, out=tmp_path / "torch", size=16).pool
    np.testing.assert_allclose(extract(path, folder, out=tmp_path / "p2").pool.features, by_torch.features, atol=1e-4)


def test_a_scikit_learn_pipeline_from_a_skops_file(tmp_path):
    skops = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    x = rows(60)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, x[:, 0] > 0)
    skops.dump(pipeline, tmp_path / "m.skops")
    pool = extract(tmp_path / "m.skops", x, out=tmp_path / "pool").pool
    np.testing.assert_array_equal(pool.predicted, pipeline.predict(x))
    skops.dump(make_pipeline(Odd(), LogisticRegression()).fit(x, x[:, 0] > 0), tmp_path / "odd.skops")
    with pytest.raises(errors.ModelError, match=r"--trust test_extract_onnx.Odd"):
        extract(tmp_path / "odd.skops", x, out=tmp_path / "pool2")
    assert extract(tmp_path / "odd.skops", x, out=tmp_path / "pool2", trust=["test_extract_onnx.Odd"]).items == 60
    (tmp_path / "b.skops").write_bytes(b"no archive")
    with pytest.raises(errors.ModelError, match="cannot be loaded as a skops file"):
        extract(tmp_path / "b.skops", x, out=tmp_path / "pool3")
