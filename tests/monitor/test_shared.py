"""The watch on real networks: their own domain against the field, another data set's items, a second round."""

from __future__ import annotations

import numpy as np
import pytest
import rounds

import opcal
from opcal.monitor import watch

pytestmark = pytest.mark.shared


def arrays(shared, name):
    with np.load(shared / "bench" / f"{name}.npz") as d:
        z, weight, bias = (d[k].astype(np.float32) for k in ("features", "head_weight", "head_bias"))
        logits = d["logits"].astype(np.float32) if "logits" in d.files else z @ weight.T + bias
        return z, logits, d["labels"].astype(int), weight, bias


@pytest.mark.parametrize(
    ("origin", "field"),
    [("t1_mnist", "t1_mnist_usps"), ("t3_cifar", "t3_cifar_stl"), ("t8_pneumonia_val", "t8_pneumonia")],
)
def test_from_the_networks_own_domain_to_the_field_three_hundred_items_alarm(shared, origin, field):
    z, h, *_ = arrays(shared, f"origin_{origin}")
    z2, h2, *_ = arrays(shared, field)
    alarms = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        old, new = rng.permutation(len(z))[:1000], rng.permutation(len(z2))[:300]
        calibrator = opcal.OperationalCalibrator("paper").begin(opcal.Pool.from_arrays(z[old], h[old]))
        alarms.append(watch(calibrator, opcal.Pool.from_arrays(z2[new], h2[new])).alarm)
    assert np.mean(alarms) >= 0.95


@pytest.mark.parametrize(
    ("mine", "other"), [("t5_pacs_art", "t6_imagenet_downsampled"), ("t6_imagenet_downsampled", "t5_pacs_art")]
)
def test_items_of_another_data_set_are_not_trusted(shared, mine, other):
    z, h, y, weight, bias = arrays(shared, mine)
    strange = arrays(shared, other)[0][:400]
    here = np.random.default_rng(0).permutation(len(z))[: len(z) // 2]
    pool = opcal.Pool.from_arrays(z[here], h[here])
    calibrator = opcal.OperationalCalibrator().fit(pool, range(60), labels=y[here][:60])
    found = watch(calibrator, opcal.Pool.from_arrays(strange, strange @ weight.T + bias))
    assert (found.posterior.above(0.9) < 0.5).mean() >= 0.95


@pytest.mark.parametrize("kind", ["mixed", pytest.param("blurred 1", marks=pytest.mark.paper)])
def test_thirty_new_labels_beside_sixty_old_ones_are_worth_sixty_new_ones(kind, shared):
    """Digits: half of the new field's are of another source, or all are blurred (bench/rounds.py, twelve splits)."""
    if kind != "mixed":
        pytest.importorskip("torch")
    (found,) = rounds.measure(shared, [kind], 12)
    assert found["second round"] <= found["60 anew"]
    assert found["second round"] < found["30 anew"]
    assert found["second round"] < found["first round only"]
