"""The calibrator in ONNX says what it says in Python, alone and behind the user's own model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal import methods
from opcal.artifact.onnx import export_onnx, join
from opcal.artifact.saving import artifact_of
from opcal.errors import InvalidInput

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

CASE, NEW = make_case(n=200), make_case(n=120, seed=0)
METHODS = {
    "auto": "auto",
    "paper": "paper",
    "fixed": methods.Paper(hyperparameters="fixed"),
    "correctness": methods.Correctness(),
    "temperature": methods.Temperature(),
    "residual": methods.Residual(),
}
TOLERANCE = 1e-5


def run(path, **inputs):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))


def single(x):
    return np.asarray(x, np.float32)


def agrees(calibrator, pool, path, **inputs):
    found, expected = run(path, **inputs), calibrator.posterior(pool)
    np.testing.assert_allclose(found["confidence"], expected.mean, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(found["sd"], expected.sd, rtol=0, atol=TOLERANCE)
    return found


@pytest.mark.parametrize("answers", ["labels", "right or wrong", "few", "none"])
@pytest.mark.parametrize("name", METHODS)
def test_onnx_equals_python(name, answers, tmp_path):
    pool = opcal.Pool.from_arrays(single(CASE.features), single(CASE.logits))
    calibrator = opcal.OperationalCalibrator(METHODS[name]).begin(pool)
    at = np.arange({"none": 0, "few": 3}.get(answers, 50))
    if answers == "right or wrong":
        calibrator.tell(at, correct=pool.predicted[at] == CASE.labels[at])
    elif len(at):
        calibrator.tell(at, labels=CASE.labels[at])
    path = export_onnx(artifact_of(calibrator), tmp_path / "m.onnx")
    z, h = single(NEW.features), single(NEW.logits)
    z[0], h[1] = 0, 0
    new = opcal.Pool.from_arrays(z, h)
    found = agrees(calibrator, new, path, features=z, logits=h)
    np.testing.assert_array_equal(found["predicted"], new.predicted)
    alone = run(path, features=z[5:6], logits=h[5:6])
    assert alone["confidence"][0] == pytest.approx(found["confidence"][5], abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_onnx_equals_python_without_logits(name, tmp_path):
    full = CASE.pool
    pool = opcal.Pool.from_arrays(single(CASE.features), confidence=full.confidence, predicted=full.predicted)
    calibrator = opcal.OperationalCalibrator(METHODS[name]).fit(pool, range(40), labels=CASE.labels[:40])
    path = export_onnx(artifact_of(calibrator), tmp_path / "m.onnx")
    inputs = {"confidence_in": full.confidence, "predicted_in": full.predicted.astype(np.int64)}
    agrees(calibrator, pool, path, features=single(CASE.features), **inputs)


def test_the_tails_of_the_truncated_normal_are_those_of_python(tmp_path):
    from opcal.artifact.onnx.graph import Graph
    from opcal.artifact.onnx.paper import truncated
    from opcal.core.truncnorm import moments

    value, g = onnx.helper.make_tensor_value_info, Graph()
    mean, sd = truncated(g, "m", "s")
    infos = [value(n, onnx.TensorProto.DOUBLE, ["N", 1]) for n in ("m", "s", mean, sd)]
    graph = onnx.helper.make_graph(g.nodes, "t", infos[:2], infos[2:], g.constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "t.onnx")
    m, s = (a.ravel() for a in np.meshgrid(np.linspace(-4, 5, 91), [0, 1e-3, 0.02, 0.1, 0.3, 1, 5, 40]))
    found = run(tmp_path / "t.onnx", m=m[:, None], s=s[:, None])
    for name, expected in zip((mean, sd), moments(m, s), strict=True):
        np.testing.assert_allclose(found[name][:, 0], expected, rtol=0, atol=1e-9)


def users_model(path, opset=17, softmax=False, bias="gemm"):
    """x -> z = relu(x V) -> h = z Wᵀ + b, as torch writes it."""
    rng, h = np.random.default_rng(5), onnx.helper
    v, w, b = rng.normal(size=(7, 6)), rng.normal(size=(4, 6)) * 2, rng.normal(size=4)
    init = [onnx.numpy_helper.from_array(single(a), n) for n, a in (("V", v), ("W", w), ("WT", w.T), ("b", b))]
    nodes = [h.make_node("MatMul", ["x", "V"], ["a"]), h.make_node("Relu", ["a"], ["z"])]
    if bias == "gemm":
        nodes.append(h.make_node("Gemm", ["z", "W", "b"], ["h"], transB=1))
    else:
        nodes += [h.make_node("MatMul", ["z", "WT"], ["zw"]), h.make_node("Add", ["zw", "b"], ["h"])]
    if softmax:
        nodes.append(h.make_node("Softmax", ["h"], ["p"], axis=1))
    out = h.make_tensor_value_info("p" if softmax else "h", 1, ["N", 4])
    graph = h.make_graph(nodes, "user", [h.make_tensor_value_info("x", 1, ["N", 7])], [out], init)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8), path)
    z = np.maximum(single(CASE.features[:, [0, 1, 2, 3, 4, 5, 0]]) @ single(v), 0)
    return single(CASE.features[:, [0, 1, 2, 3, 4, 5, 0]]), z, z @ single(w).T + single(b)


@pytest.mark.parametrize(
    ("opset", "softmax", "bias"), [(11, False, "gemm"), (13, True, "add"), (17, True, "gemm"), (18, False, "add")]
)
@pytest.mark.parametrize("name", ["auto", "paper"])
def test_the_joined_model_gives_prediction_and_confidence_and_keeps_its_own_output(
    name, opset, softmax, bias, tmp_path
):
    x, z, h = users_model(tmp_path / "user.onnx", opset, softmax, bias)
    pool = opcal.Pool.from_arrays(z, h)
    calibrator = opcal.OperationalCalibrator(name).fit(pool, range(50), labels=CASE.labels[:50])
    path = join(artifact_of(calibrator), tmp_path / "user.onnx", tmp_path / "both.onnx")
    found = agrees(calibrator, pool, path, x=x)
    before = run(tmp_path / "user.onnx", x=x)
    for output, values in before.items():
        np.testing.assert_array_equal(found[output], values)
    np.testing.assert_array_equal(found["predicted"], pool.predicted)


def test_the_joined_model_runs_in_a_process_that_has_no_opcal(tmp_path):
    x, z, h = users_model(tmp_path / "user.onnx")
    calibrator = opcal.OperationalCalibrator().fit(opcal.Pool.from_arrays(z, h), range(50), labels=CASE.labels[:50])
    join(artifact_of(calibrator), tmp_path / "user.onnx", tmp_path / "both.onnx", features="z", logits="h")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys; sys.modules['opcal'] = None\n"
        "import numpy as np, onnxruntime as ort\n"
        f"s = ort.InferenceSession({str(tmp_path / 'both.onnx')!r}); x = np.load({str(tmp_path / 'x.npy')!r})\n"
        f"np.save({str(tmp_path / 'c.npy')!r}, s.run(['confidence'], {{'x': x}})[0])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    expected = calibrator.confidence(opcal.Pool.from_arrays(z, h))
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), expected, rtol=0, atol=TOLERANCE)


def test_models_that_do_not_fit_are_refused_by_name(tmp_path):
    users_model(tmp_path / "user.onnx")
    made = artifact_of(opcal.OperationalCalibrator("paper").fit(CASE.pool, range(20), labels=CASE.labels[:20]))
    with pytest.raises(InvalidInput, match="it computes"):
        join(made, tmp_path / "user.onnx", tmp_path / "both.onnx", features="nothing")
    with pytest.raises(InvalidInput, match="name the features"):
        join(made, tmp_path / "user.onnx", tmp_path / "both.onnx", logits="z")
    with pytest.raises(InvalidInput, match="do not fit 6 features"):
        join(made, tmp_path / "user.onnx", tmp_path / "both.onnx", features="x")
    (tmp_path / "broken.onnx").write_bytes(b"no")
    with pytest.raises(InvalidInput, match="cannot be read"):
        join(made, tmp_path / "broken.onnx", tmp_path / "both.onnx")
    assert not (tmp_path / "both.onnx").exists()
