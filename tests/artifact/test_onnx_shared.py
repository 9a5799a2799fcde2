"""ONNX against Python on every task of the benchmarks, K = 1,000 among them."""

from __future__ import annotations

import numpy as np
import pytest

import opcal
from opcal.artifact.onnx import export_onnx
from opcal.artifact.saving import artifact_of

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.shared
TASKS = (
    *("t1_mnist_usps", "t2_polarity", "t3_cifar_stl", "t5_pacs_art"),
    *("t6_imagenet_downsampled", "t8_pneumonia"),
)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", ["auto", "paper"])
def test_onnx_equals_python_on_every_task(shared, method, task, tmp_path):
    with np.load(shared / "bench" / f"{task}.npz") as d:
        z, y = d["features"].astype(np.float32), d["labels"].astype(int)
        weight, bias = d["head_weight"].astype(np.float32), d["head_bias"].astype(np.float32)
        h = d["logits"].astype(np.float32) if "logits" in d.files else z @ weight.T + bias
    pool, test = opcal.Pool.from_arrays(z[::2], h[::2]), opcal.Pool.from_arrays(z[1::2], h[1::2])
    told = np.random.default_rng(0).permutation(len(pool))[:60]
    calibrator = opcal.OperationalCalibrator(method).fit(pool, told, labels=y[::2][told])
    path = export_onnx(artifact_of(calibrator), tmp_path / "m.onnx")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    confidence, sd = session.run(["confidence", "sd"], {"features": z[1::2], "logits": h[1::2]})
    expected = calibrator.posterior(test)
    np.testing.assert_allclose(confidence, expected.mean, rtol=0, atol=1e-5)
    np.testing.assert_allclose(sd, expected.sd, rtol=0, atol=1e-5)
