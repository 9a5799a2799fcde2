"""Bars on real shifts; they need the shared data folder (`make test-shared`)."""

from __future__ import annotations

import warnings

import efficacy
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


# The default method against the authors' code: (file, share of labels, ratio of Brier scores)
BARS = [
    ("t1_mnist_usps", 0.02, 0.62),
    ("t1_mnist_usps", 0.1, 0.46),
    ("t3_cifar_stl", 0.1, 0.82),
    ("t5_pacs_art", 0.02, 0.42),
    ("t5_pacs_art", 0.1, 0.45),
    ("t8_pneumonia", 0.1, 0.80),
]


@pytest.mark.parametrize(("file", "share", "bar"), BARS)
def test_the_default_method_beats_the_authors_code(shared, file, share, bar):
    found = []
    for split in range(6):
        s = efficacy.split_of(shared / "bench" / f"{file}.npz", split, share)
        right = s.test.predicted == s.test_truth
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = efficacy.authors(s)
        found.append([opcal.metrics.brier(c, right) for c in (efficacy.own_selection(s, "auto"), theirs)])
    ours, theirs = np.mean(found, 0)
    assert ours / theirs <= bar
