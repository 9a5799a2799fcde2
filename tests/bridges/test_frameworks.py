"""PyTorch, Hugging Face and MLflow: what the model says stays, and the calibrated confidence comes beside it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.errors import IncompatiblePool, InvalidInput

pytestmark = [pytest.mark.bridges, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
CASE = make_case(n=200, d=7)


@pytest.fixture
def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(7, 6), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(6, 4)
    ).eval()


def outputs(network, x):
    import torch

    with torch.no_grad():
        z = network[:3](x)
        return z.numpy(), network[3](z).numpy()


def artifact(z, h, path):
    calibrator = opcal.OperationalCalibrator("paper").fit(
        opcal.Pool.from_arrays(z, h), range(50), labels=CASE.labels[:50]
    )
    return calibrator, opcal.load(calibrator.save(path))


def test_the_modules_logits_are_unchanged_and_confidence_comes_beside_them(network, tmp_path):
    import torch

    from opcal.bridges import CalibratedModule

    x = torch.tensor(CASE.features, dtype=torch.float32)
    z, h = outputs(network, x)
    calibrator, loaded = artifact(z, h, tmp_path / "x.opcal")
    made = CalibratedModule(network, loaded)
    out = made(x)
    assert torch.equal(out.logits, network(x))
    np.testing.assert_allclose(out.confidence, calibrator.confidence(opcal.Pool.from_arrays(z, h)), atol=1e-6)
    out.logits.sum().backward()
    assert network[0].weight.grad is not None
    assert set(made.state_dict()) == {f"{m}.{k}" for m in ("model",) for k in network.state_dict()} | {
        "head.weight",
        "head.bias",
    }
    with pytest.raises(InvalidInput, match="named_modules"):
        CalibratedModule(network, loaded, layer="head")
    with pytest.raises(IncompatiblePool, match="the layer got"):
        CalibratedModule(network, loaded, layer="0")(x)


def test_torchs_own_onnx_export_is_joined_and_agrees(network, tmp_path):
    torch, ort = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from opcal.artifact.onnx import join

    x = torch.tensor(CASE.features, dtype=torch.float32)
    calibrator, loaded = artifact(*outputs(network, x), tmp_path / "x.opcal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (x[:2],), tmp_path / "user.onnx", dynamo=True, dynamic_shapes=({0: torch.export.Dim("n")},)
        )
    join(loaded, tmp_path / "user.onnx", tmp_path / "both.onnx")
    session = ort.InferenceSession(str(tmp_path / "both.onnx"))
    (confidence,) = session.run(["confidence"], {session.get_inputs()[0].name: x.numpy()})
    expected = calibrator.confidence(opcal.Pool.from_arrays(*outputs(network, x)))
    np.testing.assert_allclose(confidence, expected, rtol=0, atol=1e-5)


def test_a_hugging_face_pipeline_keeps_its_answers(tmp_path):
    transformers = pytest.importorskip("transformers")
    import torch

    from opcal.bridges import CalibratedPipeline

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "very"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), num_labels=3, **size)
    model = transformers.BertForSequenceClassification(config).eval()
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words[5:], 5)) for _ in range(60)]
    seen = []
    hook = model.classifier.register_forward_pre_hook(lambda m, i: seen.append(i[0].detach()))
    with torch.no_grad():
        h = np.vstack([model(**tokenizer(t, return_tensors="pt")).logits.numpy() for t in texts])
    hook.remove()
    z = torch.cat(seen).numpy()
    calibrator = opcal.OperationalCalibrator("paper").fit(
        opcal.Pool.from_arrays(z, h), range(30), labels=rng.integers(0, 3, 30)
    )
    both = CalibratedPipeline(pipe, calibrator.save(tmp_path / "x.opcal"))
    plain, found = pipe(texts[:5]), both(texts[:5])
    for before, after in zip(plain, found, strict=True):
        assert before["label"] == after["label"]
        assert after["score"] == pytest.approx(before["score"], abs=1e-6)
    expected = calibrator.confidence(opcal.Pool.from_arrays(z, h))[:5]
    np.testing.assert_allclose([a["confidence"] for a in found], expected, atol=1e-5)
    assert "sd" in both(texts[0], top_k=2)[0]


def image_model(kind):
    """A network of random weights for three classes, built from its configuration."""
    import torch
    import transformers

    torch.manual_seed(0)
    if kind == "resnet":  # convolutions: the linear layer's input is what was pooled and flattened
        size = {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "layer_type": "basic"}
        return transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=3, **size)).eval()
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=16, patch_size=8, num_labels=3, **size)
    return transformers.ViTForImageClassification(config).eval()


@pytest.mark.parametrize("kind", ["vit", "resnet"])
def test_an_image_pipeline_keeps_its_answers_too(kind, tmp_path):
    transformers, image = pytest.importorskip("transformers"), pytest.importorskip("PIL.Image")
    import torch

    from opcal.bridges import CalibratedPipeline

    model = image_model(kind)
    processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    pipe = transformers.pipeline("image-classification", model=model, image_processor=processor, device="cpu")
    rng = np.random.default_rng(0)
    pictures = [image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)) for _ in range(60)]
    seen, head = [], [m for m in model.modules() if isinstance(m, torch.nn.Linear)][-1]
    hook = head.register_forward_pre_hook(lambda m, i: seen.append(i[0].detach()))
    with torch.no_grad():
        h = np.vstack([model(**processor(p, return_tensors="pt")).logits.numpy() for p in pictures])
    hook.remove()
    pool = opcal.Pool.from_arrays(torch.cat(seen).numpy(), h)
    calibrator = opcal.OperationalCalibrator("paper").fit(pool, range(30), labels=rng.integers(0, 3, 30))
    both = CalibratedPipeline(pipe, calibrator.save(tmp_path / "x.opcal"))
    plain, found = pipe(pictures[:5]), both(pictures[:5])
    for before, after in zip(plain, found, strict=True):
        assert [a["label"] for a in before] == [a["label"] for a in after]
        np.testing.assert_allclose([a["score"] for a in before], [a["score"] for a in after], atol=1e-6)
        assert ["confidence" in a for a in after] == [True, False, False]
    expected = calibrator.confidence(pool)[:5]
    np.testing.assert_allclose([a[0]["confidence"] for a in found], expected, atol=1e-5)
    pictures[0].save(tmp_path / "one.png")
    (top,) = both(str(tmp_path / "one.png"), top_k=1)
    assert top["confidence"] == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_scores_a_table_and_its_folder_names_no_path_of_this_machine(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    import pandas as pd

    from opcal.bridges import save_mlflow

    calibrator, _ = artifact(CASE.features.astype("f4"), CASE.logits.astype("f4"), tmp_path / "x.opcal")
    folder = save_mlflow(tmp_path / "x.opcal", tmp_path / "model")
    assert not list(folder.rglob("*.pkl"))
    assert str(tmp_path) not in (folder / "MLmodel").read_text()
    table = pd.DataFrame({f"feature_{i}": CASE.features[:, i].astype("f4") for i in range(7)})
    table = table.assign(**{f"logit_{i}": CASE.logits[:, i].astype("f4") for i in range(4)})
    found = mlflow.pyfunc.load_model(str(folder)).predict(table)
    expected = calibrator.confidence(opcal.Pool.from_arrays(CASE.features.astype("f4"), CASE.logits.astype("f4")))
    np.testing.assert_allclose(found["confidence"], expected, atol=1e-6)
