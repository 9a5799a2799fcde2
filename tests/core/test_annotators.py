"""Agreement and annotators' errors, against scikit-learn, hand-worked values and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from opcal.core.annotators import above_chance, cohen_kappa, dawid_skene, krippendorff_alpha


def votes(rng, items, errors, classes, each=None):
    """Opinions of annotators with these error rates on items of random classes."""
    truth = rng.integers(0, classes, items)
    item, who, said = [], [], []
    for a, error in enumerate(errors):
        of = np.arange(items) if each is None else np.sort(rng.choice(items, each, replace=False))
        wrong = rng.random(len(of)) < error
        item.append(of), who.append(np.full(len(of), a))
        said.append(np.where(wrong, (truth[of] + 1 + rng.integers(0, classes - 1, len(of))) % classes, truth[of]))
    return truth, np.concatenate(item), np.concatenate(who), np.concatenate(said)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, (2, 40))
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


def test_kappa_says_nothing_where_both_always_say_the_same_one_class():
    assert np.isnan(cohen_kappa(np.zeros(5, int), np.zeros(5, int)))
    assert np.isnan(cohen_kappa(np.empty(0, int), np.empty(0, int)))


def brute_alpha(item, category):
    """Krippendorff's definition by pairs of opinions."""
    within, values = [], []
    for i in np.unique(item):
        said = category[item == i]
        if len(said) > 1:
            values += list(said)
            within += [(a != b, 1 / (len(said) - 1)) for a, b in combinations(said, 2)]
    observed = sum(2 * d * w for d, w in within) / len(values)
    pairs = list(combinations(values, 2))
    return 1 - observed / (sum(a != b for a, b in pairs) / len(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_the_one_counted_pair_by_pair_with_opinions_missing(seed):
    rng = np.random.default_rng(seed)
    _, item, _, said = votes(rng, 30, (0.1, 0.3, 0.5), 3, each=20)
    assert krippendorff_alpha(item, said) == pytest.approx(brute_alpha(item, said), abs=1e-12)


def test_alpha_of_krippendorffs_own_example_is_743():
    table = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    cells = [(i, int(c)) for row in table for i, c in enumerate(row.split()) if c != "."]
    item, said = (np.array(x) for x in zip(*cells, strict=True))
    assert krippendorff_alpha(item, said) == pytest.approx(0.743, abs=5e-4)


def test_alpha_says_nothing_without_a_second_opinion():
    assert np.isnan(krippendorff_alpha(np.arange(4), np.array([0, 1, 0, 1])))


def test_error_rates_are_found_without_the_truth():
    rng = np.random.default_rng(0)
    errors = (0.02, 0.1, 0.4)
    _, item, who, said = votes(rng, 2000, errors, 4)
    np.testing.assert_allclose(dawid_skene(item, who, said, 4).error, errors, atol=0.03)


def test_the_posterior_beats_the_majority_where_one_annotator_is_much_better():
    rng = np.random.default_rng(1)
    truth, item, who, said = votes(rng, 1500, (0.02, 0.45, 0.45), 3)
    posterior = dawid_skene(item, who, said, 3).posterior
    counts = np.zeros((1500, 3))
    np.add.at(counts, (item, said), 1)
    assert (posterior.argmax(1) == truth).mean() > (counts.argmax(1) == truth).mean() + 0.05


def test_renaming_the_classes_changes_nothing():
    rng = np.random.default_rng(2)
    _, item, who, said = votes(rng, 200, (0.1, 0.2, 0.3), 3)
    renamed = np.array([2, 0, 1])
    first, second = dawid_skene(item, who, said, 3), dawid_skene(item, who, renamed[said], 3)
    np.testing.assert_allclose(second.posterior[:, renamed], first.posterior, atol=1e-9)
    np.testing.assert_allclose(second.error, first.error, atol=1e-9)


def test_a_certain_label_weighs_one_and_a_guess_nothing():
    np.testing.assert_allclose(above_chance(np.array([1.0, 0.5, 0.25, 0.1]), 4), [1, 1 / 3, 0, 0])
