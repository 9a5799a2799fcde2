"""Bars on real shifts; they need the shared data folder (`make test-shared`)."""

from __future__ import annotations

import numpy as np
import pytest

import opcal

pytestmark = pytest.mark.shared


def brier_with_all_labels(path, splits=5):
    d = np.load(path)
    z, h, y = d["features"], d["logits"], d["labels"].astype(int)
    found = []
    for split in range(splits):
        rows = np.random.default_rng(1000 + split).permutation(len(y))
        pool, test = rows[: len(y) // 2], rows[len(y) // 2 :]
        calibrator = opcal.OperationalCalibrator("paper", random_state=split)
        calibrator.fit(opcal.Pool.from_arrays(z[pool], h[pool]), np.arange(len(pool)), labels=y[pool])
        new = opcal.Pool.from_arrays(z[test], h[test])
        found.append(opcal.metrics.brier(calibrator.confidence(new), new.predicted == y[test]))
    return np.mean(found)


def test_the_papers_method_with_all_labels_of_digits_reaches_its_figure(shared):
    assert brier_with_all_labels(shared / "bench" / "t1_mnist_usps.npz") <= 0.115


def test_the_papers_method_with_all_labels_of_photographs_reaches_its_figure(shared):
    assert brier_with_all_labels(shared / "bench" / "t3_cifar_stl.npz") <= 0.21
