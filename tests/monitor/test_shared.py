"""The watch on real networks: their own domain against the field, another data set's items, a second round."""

from __future__ import annotations

import numpy as np
import pytest

import opcal
from opcal.metrics import brier
from opcal.monitor import next_round, watch

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


def test_thirty_new_labels_beside_sixty_old_ones_are_worth_sixty_new_ones(shared):
    """Half of the new field's digits are of another source."""
    (z, h, y, *_), (z2, h2, y2, *_) = arrays(shared, "t1_mnist_usps"), arrays(shared, "origin_t1_mnist")
    losses = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a, b = rng.permutation(len(z)), rng.permutation(len(z2))

        def mixed(low, high, a=a, b=b):
            one, two = a[900 + low : 900 + high], b[low:high]
            return np.vstack([z[one], z2[two]]), np.vstack([h[one], h2[two]]), np.append(y[one], y2[two])

        old = opcal.Pool.from_arrays(z[a[:900]], h[a[:900]])
        first = taught(opcal.OperationalCalibrator(random_state=seed).begin(old, budget=60), y[a[:900]])
        zn, hn, yn = mixed(0, 450)
        zt, ht, yt = mixed(450, 900)
        new, test = opcal.Pool.from_arrays(zn, hn), opcal.Pool.from_arrays(zt, ht)
        second = taught(next_round(first, new).begin(first, budget=30), yn)
        anew = taught(opcal.OperationalCalibrator(random_state=seed).begin(new, budget=60), yn)
        losses.append([brier(c.confidence(test), test.predicted == yt) for c in (second, anew)])
    assert np.mean(losses, 0)[0] <= np.mean(losses, 0)[1]


def taught(calibrator, labels):
    while len(i := calibrator.ask(15)):
        calibrator.tell(i, labels=labels[i])
    return calibrator
