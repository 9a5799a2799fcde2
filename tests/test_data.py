"""The shipped case is whole, says what it claims, and keeps its licence."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load

from opcal.data import Case, load_pneumonia

FOLDER = files("opcal.data") / "pneumonia"
IMAGES_SHA256 = "f936e3b6b29d2ed7a8182dd090c27504a6b7152ce496a960db0169622aabf843"


@pytest.fixture(scope="module")
def case() -> Case:
    return load_pneumonia()


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / "case.json").read_text(encoding="utf-8"))
    return loaded


def confidence_and_correct(case: Case) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    exps = np.exp(case.logits.astype(float) - case.logits.max(1, keepdims=True))
    return exps.max(1) / exps.sum(1), case.logits.argmax(1) == case.labels


def test_every_array_covers_the_624_test_xrays(case: Case) -> None:
    assert (case.features.shape, case.features.dtype) == ((624, 64), np.dtype(np.float32))
    assert (case.logits.shape, case.logits.dtype) == ((624, 2), np.dtype(np.float32))
    assert (case.images.shape, case.images.dtype) == ((624, 28, 28), np.dtype(np.uint8))
    assert (case.head_weight.shape, case.head_bias.shape) == ((2, 64), (2,))
    assert len(case) == len(case.labels) == len(set(case.ids)) == 624
    assert np.isfinite(np.hstack([case.features, case.logits])).all()


def test_classes_and_counts_are_those_of_pneumoniamnist(case: Case) -> None:
    assert case.classes == ("normal", "pneumonia")
    assert np.bincount(case.labels).tolist() == [234, 390]


def test_images_are_the_unchanged_test_images_of_the_source(case: Case) -> None:
    assert hashlib.sha256(case.images.tobytes()).hexdigest() == IMAGES_SHA256


def test_head_of_the_features_gives_the_logits(case: Case) -> None:
    np.testing.assert_allclose(case.features @ case.head_weight.T + case.head_bias, case.logits, atol=1e-4)


def body(images: NDArray[np.uint8], weights: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The network of examples/pneumonia_case.py up to its representation, without torch."""
    x = images[:, None].astype(np.float32) / 255
    for layer in (0, 3, 6):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        x = np.einsum("ncyxij,ocij->noyx", windows, weights[f"body.{layer}.weight"], optimize=True)
        x = np.maximum(x + weights[f"body.{layer}.bias"][:, None, None], 0)
        size = x.shape[2] // 2
        x = x[:, :, : 2 * size, : 2 * size].reshape(len(x), -1, size, 2, size, 2).max((3, 5))
    return np.maximum(x.reshape(len(x), -1) @ weights["body.10.weight"].T + weights["body.10.bias"], 0)


def test_shipped_weights_turn_the_images_into_the_features(case: Case) -> None:
    weights = load((FOLDER / "model.safetensors").read_bytes())
    np.testing.assert_allclose(body(case.images[::20], weights), case.features[::20], atol=1e-4)


def test_accuracy_brier_and_mistakes_are_those_that_case_json_states(case: Case, facts: dict[str, Any]) -> None:
    confidence, correct = confidence_and_correct(case)
    here = facts["here"]
    assert here["items"] == len(case)
    assert here["accuracy"] == pytest.approx(correct.mean(), abs=5e-5)
    assert here["brier"] == pytest.approx(np.mean((confidence - correct) ** 2), abs=5e-5)
    assert here["mistakes"] == np.sum(~correct)
    for level in (0.8, 0.9):
        assert here[f"mistakes_above_{level}"] == np.sum(~correct & (confidence > level))


def test_the_model_is_good_at_home_and_confidently_wrong_here(case: Case, facts: dict[str, Any]) -> None:
    confidence, correct = confidence_and_correct(case)
    assert facts["home"]["accuracy"] > 0.95
    assert 0.8 < correct.mean() < 0.9
    assert np.sum(~correct & (confidence > 0.9)) >= 36


def test_whoever_receives_the_case_receives_its_source_licence_and_changes() -> None:
    text = (FOLDER / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for needed in ("PneumoniaMNIST", "MedMNIST v2", "CC BY 4.0", "Yang", "Kermany", "2018", "What was changed"):
        assert needed in text


def test_the_case_stays_small_and_holds_no_pickle(case: Case) -> None:
    contents = {entry.name: entry.read_bytes() for entry in FOLDER.iterdir() if entry.is_file()}
    assert sum(map(len, contents.values())) < 1_500_000
    assert {name.rpartition(".")[2] for name in contents} == {"npy", "npz", "safetensors", "json", "md"}


def test_loading_twice_gives_independent_arrays(case: Case) -> None:
    other = load_pneumonia()
    other.features[0] += 1
    assert not np.array_equal(other.features[0], case.features[0])
