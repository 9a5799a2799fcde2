"""Metrics against scikit-learn, plain loops, direct integration and their own definitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import brier_score_loss

from opcal.core import metrics
from opcal.core.metrics import aurc, brier, brier_decomposition, confident, ece, lce, lce_comparison, reliability_curve
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch, UnknownOption

GRIDDED = st.integers(0, 20).map(lambda k: k / 20)
CONFIDENCE = st.one_of(st.floats(0, 1), GRIDDED)
SCORED = st.lists(st.tuples(CONFIDENCE, st.booleans()), min_size=1, max_size=60).map(
    lambda rows: tuple(map(np.array, zip(*rows, strict=True)))
)
EVERY = {
    "brier": brier,
    "reliability": lambda c, right: brier_decomposition(c, right).reliability,
    "resolution": lambda c, right: brier_decomposition(c, right).resolution,
    "remainder": lambda c, right: brier_decomposition(c, right).remainder,
    "ece width": ece,
    "ece mass": lambda c, right: ece(c, right, binning="mass"),
    "ece smooth": lambda c, right: ece(c, right, binning="smooth"),
    "lce": lce,
    "aurc": aurc,
    "right": lambda c, right: confident(c, right, 0.9).right,
    "false": lambda c, right: confident(c, right, 0.9).false,
    "upper": lambda c, right: reliability_curve(c, right).upper.sum(),
    "lower by mass": lambda c, right: reliability_curve(c, right, binning="mass").lower.sum(),
}
every_metric = pytest.mark.parametrize("metric", EVERY.values(), ids=EVERY)


def overconfident(n=400, seed=0):
    """Beta(4, 1.5) confidences, right with probability .9 c; a third of them rounded, so that some tie."""
    generator = np.random.default_rng(seed)
    c = generator.beta(4, 1.5, n)
    c[::3] = c[::3].round(2)
    return c, generator.random(n) < 0.9 * c


def bin_by_fractions(c, bins):
    """The m with (m-1)/M < c <= m/M in exact arithmetic on the float that m/M is written as."""
    return next(m for m in range(bins) if m == bins - 1 or Fraction(c) <= Fraction((m + 1) / bins))


def loop_bins(conf, correct, bins):
    groups = [[] for _ in range(bins)]
    for c, right in zip(conf, correct, strict=True):
        groups[bin_by_fractions(float(c), bins)].append((float(c), bool(right)))
    return [(len(g), sum(c for c, _ in g) / len(g), sum(r for _, r in g) / len(g)) for g in groups if g]


# Brier score and its parts


def test_brier_equals_scikit_learn():
    c, right = overconfident()
    assert brier(c, right) == pytest.approx(brier_score_loss(right, c), abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(SCORED, st.integers(1, 15))
def test_the_parts_and_the_remainder_add_up_exactly(scored, bins):
    d = brier_decomposition(*scored, bins=bins)
    assert d.reliability - d.resolution + d.uncertainty + d.remainder == d.brier
    assert d.brier == pytest.approx(brier(*scored), abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(SCORED, st.integers(1, 15))
def test_the_parts_equal_a_loop_over_the_definition(scored, bins):
    conf, correct = scored
    n, accuracy = len(conf), float(np.mean(correct))
    rows = loop_bins(conf, correct, bins)
    d = brier_decomposition(conf, correct, bins)
    assert d.reliability == pytest.approx(sum(k / n * (c - a) ** 2 for k, c, a in rows), abs=1e-13)
    assert d.resolution == pytest.approx(sum(k / n * (a - accuracy) ** 2 for k, _, a in rows), abs=1e-13)
    assert d.uncertainty == pytest.approx(accuracy * (1 - accuracy), abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10), st.booleans()), min_size=1, max_size=60))
def test_nothing_remains_when_confidence_is_constant_within_bins(rows):
    tenths, correct = map(np.array, zip(*rows, strict=True))
    assert brier_decomposition(tenths / 10, correct).remainder == pytest.approx(0, abs=1e-14)


def test_the_remainder_is_the_variance_less_twice_the_covariance_within_bins():
    c, right = overconfident()
    d = brier_decomposition(c, right)
    index = np.array([bin_by_fractions(value, 10) for value in c])
    within = sum(
        np.sum(
            (c[index == m] - c[index == m].mean())
            * (c[index == m] - 2.0 * right[index == m] - (c - 2.0 * right)[index == m].mean())
        )
        for m in np.unique(index)
    )
    assert d.remainder == pytest.approx(within / len(c), abs=1e-14)


def test_edges_belong_to_the_bin_below_zero_to_the_first_and_one_to_the_last():
    for bins in (3, 7, 10, 15, 100):
        edges = np.arange(bins + 1) / bins
        assert metrics._bin_index(edges, bins, "width").tolist() == [0, *range(bins)]
        assert metrics._bin_index(np.nextafter(edges[:-1], 1), bins, "width").tolist() == list(range(bins))
    written = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
    assert metrics._bin_index(written, 10, "width").tolist() == [0, 1, 2, 5, 6, 8]


# expected calibration error


@settings(max_examples=50, deadline=None)
@given(SCORED, st.integers(1, 20))
def test_width_ece_equals_a_loop_over_the_definition(scored, bins):
    n = len(scored[0])
    expected = sum(k / n * abs(c - a) for k, c, a in loop_bins(*scored, bins))
    assert ece(*scored, bins) == pytest.approx(expected, abs=1e-13)


def test_mass_ece_equals_splitting_the_sorted_items_evenly():
    generator = np.random.default_rng(3)
    c, right = generator.random(150), generator.random(150) < 0.5
    order = np.argsort(c)
    parts = zip(np.split(c[order], 15), np.split(right[order], 15), strict=True)
    expected = sum(abs(a.mean() - b.mean()) / 15 for a, b in parts)
    assert ece(c, right, binning="mass") == pytest.approx(expected, abs=1e-14)


@settings(max_examples=50, deadline=None)
@given(SCORED, st.integers(1, 20))
def test_mass_bins_keep_ties_together_and_rise_with_confidence(scored, bins):
    conf, _ = scored
    index = metrics._bin_index(conf, bins, "mass")
    assert index.min() >= 0
    assert index.max() < bins
    for i, j in itertools.combinations(range(len(conf)), 2):
        assert (conf[i] - conf[j]) * (index[i] - index[j]) >= 0
        assert conf[i] != conf[j] or index[i] == index[j]


def smooth_at(c, right, sigma, points=4001):
    """The integral of |kernel-smoothed residual|, with images of every item at +-c + 2k, by midpoints."""
    t = (np.arange(points) + 0.5) / points
    places, group = np.unique(c, return_inverse=True)
    images = np.concatenate([sign * places + 2 * k for k in range(-1, 2) for sign in (-1, 1)])
    kernel = np.exp(-0.5 * ((t[:, None] - images) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    return np.abs(kernel @ np.tile(np.bincount(group, weights=(right - c) / len(c)), 6)).mean()


@pytest.mark.parametrize("seed", range(4))
def test_smooth_ece_is_the_bandwidth_at_which_the_smoothed_error_equals_it(seed):
    c, right = overconfident(n=[15, 40, 90, 150][seed], seed=seed)
    sigma = ece(c, right, binning="smooth")
    assert sigma > 0.01
    assert smooth_at(c, right, sigma) == pytest.approx(sigma, abs=1e-6)


def test_smooth_ece_stays_right_at_small_bandwidths():
    c = np.repeat([0.2, 0.5, 0.8], 500)
    right = np.concatenate([np.arange(500) < k for k in (102, 249, 401)])
    sigma = ece(c, right, binning="smooth")
    assert 1e-3 < sigma < 4e-3
    assert smooth_at(c, right, sigma) == pytest.approx(sigma, rel=1e-3)


def test_smooth_ece_of_one_constant_error_is_that_error():
    right = np.arange(100) < 50
    assert ece(np.full(100, 0.8), right, binning="smooth") == pytest.approx(0.3, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(SCORED)
def test_smooth_ece_lies_between_the_bias_and_the_mean_absolute_residual(scored):
    conf, correct = scored
    value = ece(conf, correct, binning="smooth")
    assert abs(np.mean(correct - conf)) - 1e-9 <= value <= np.mean(np.abs(correct - conf)) + 1e-9


@pytest.mark.parametrize("binning", ["width", "mass", "smooth"])
def test_perfect_confidence_has_no_calibration_error(binning):
    right = np.array([True, False, True, True])
    assert ece(right.astype(float), right, binning=binning) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_the_opposite_of_the_truth_has_a_calibration_error_of_one(binning):
    right = np.array([True, False, True, True])
    assert ece(1.0 - right, right, binning=binning) == 1


# loss due to confidence error


@settings(max_examples=50, deadline=None)
@given(SCORED, st.one_of(GRIDDED.filter(lambda x: x < 1), st.floats(0, 0.999)))
def test_lce_equals_a_loop_over_the_definition(scored, threshold):
    u = threshold / (1 - threshold)
    gain = sum((1 if right else -u) for c, right in zip(*scored, strict=True) if c >= threshold)
    expected = (sum(scored[1]) - gain) / len(scored[0])
    assert lce(*scored, threshold) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert lce(*scored, threshold, scaled=True) == pytest.approx(expected * (1 - threshold), rel=1e-12, abs=1e-12)


def test_lce_takes_the_loss_or_the_threshold_and_nine_tenths_by_default():
    c, right = overconfident()
    assert lce(c, right) == lce(c, right, threshold=0.9) == pytest.approx(lce(c, right, u=9), rel=1e-12)
    assert lce(c, right, u=0) == 0
    with pytest.raises(UnknownOption, match="both"):
        lce(c, right, threshold=0.9, u=9.0)


@pytest.mark.parametrize(
    ("n", "hits", "row"),
    [(900, 612, (0.8, 473, 126, 0.143)), (900, 612, (0.9, 417, 74, 0.096)), (3000, 1413, (0.8, 1350, 1372, 0.370))],
)
def test_scaled_lce_gives_what_the_papers_table_prints(n, hits, row):
    """Uncalibrated rows of Table 3 (tasks 1, 1, 3) from the counts there and the accuracies of its table of tasks."""
    threshold, right, false, printed = row
    correct = np.arange(n) < hits
    conf = np.full(n, 0.5)
    conf[:right] = conf[n - false :] = 0.95
    assert lce(conf, correct, threshold, scaled=True) == pytest.approx(printed, abs=6e-4)


def test_refusing_everything_costs_the_accuracy_and_taking_everything_u_times_the_error():
    c, right = overconfident()
    both = lce_comparison(c, right, u=4.0)
    assert both.act_on_nothing == pytest.approx(right.mean()) == pytest.approx(lce(np.zeros(400), right, u=4.0))
    assert (
        both.act_on_everything
        == pytest.approx(4 * (1 - right.mean()))
        == pytest.approx(lce(np.ones(400), right, u=4.0))
    )
    assert both.lce == lce(c, right, u=4.0)
    assert (both.threshold, both.u, both.scaled) == (0.8, 4.0, False)
    scaled = lce_comparison(c, right, u=4.0, scaled=True)
    parts = (scaled.lce, scaled.act_on_nothing, scaled.act_on_everything)
    assert parts == pytest.approx([0.2 * part for part in (both.lce, both.act_on_nothing, both.act_on_everything)])


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.7, 0.9, 0.95, 0.99])
def test_confidence_exactly_at_the_threshold_acts(threshold):
    assert confident([threshold], [True], threshold).right == 1
    assert lce([threshold], [True], threshold) == 0
    assert lce([np.nextafter(threshold, 0)], [True], threshold) == 1


@settings(max_examples=50, deadline=None)
@given(SCORED, st.floats(0, 0.99))
def test_perfect_confidence_has_no_loss_and_none_is_negative(scored, threshold):
    conf, correct = scored
    assert lce(correct.astype(float), correct, threshold) == 0
    assert lce(conf, correct, threshold) >= 0


# ranking and counts


def aurc_over_all_orders(conf, correct):
    values = []
    for order in itertools.permutations(range(len(conf))):
        if all(conf[a] >= conf[b] for a, b in itertools.pairwise(order)):
            wrong = [not correct[i] for i in order]
            values.append(np.mean([np.mean(wrong[: k + 1]) for k in range(len(wrong))]))
    return np.mean(values)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.9]), st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_ties(rows):
    conf, correct = zip(*rows, strict=True)
    assert aurc(conf, correct) == pytest.approx(aurc_over_all_orders(conf, correct), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(GRIDDED, st.booleans()), min_size=1, max_size=60))
def test_aurc_depends_only_on_the_order_of_confidence(rows):
    conf, correct = map(np.array, zip(*rows, strict=True))
    assert aurc(conf**3 / 2, correct) == pytest.approx(aurc(conf, correct), abs=1e-14)


def test_ranking_the_right_ones_first_is_the_best_aurc():
    _, right = overconfident()
    best, worst = aurc(right.astype(float), right), aurc(1.0 - right, right)
    shuffled = aurc(np.random.default_rng(0).random(400), right)
    assert best < shuffled < worst
    assert aurc(np.full(400, 0.7), right) == pytest.approx(1 - right.mean())


def test_confident_counts_right_and_false():
    counts = confident([0.95, 0.9, 0.99, 0.2, 1.0], [True, False, True, True, False], 0.9)
    assert (counts.right, counts.false) == (2, 2)
    assert confident([1.0, 0.99], [True, True], 1).right == 1


# reliability curve


def test_reliability_bands_equal_scipys_exact_interval():
    curve = reliability_curve(*overconfident(), bins=10, level=0.9)
    hits = np.rint(curve.accuracy * curve.count).astype(int)
    for k, n, low, high in zip(hits, curve.count, curve.lower, curve.upper, strict=True):
        exact = binomtest(k, n).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(SCORED, st.sampled_from(["width", "mass"]))
def test_the_curve_holds_every_item_once_and_its_bands_hold_the_accuracy(scored, binning):
    curve = reliability_curve(*scored, bins=7, binning=binning)
    assert (curve.count > 0).all()
    assert curve.count.sum() == len(scored[0])
    assert curve.count @ curve.confidence == pytest.approx(scored[0].sum(), abs=1e-12)
    assert curve.count @ curve.accuracy == pytest.approx(scored[1].sum(), abs=1e-12)
    assert (np.diff(curve.confidence) > 0).all()
    assert ((curve.lower >= 0) & (curve.lower <= curve.accuracy)).all()
    assert ((curve.upper <= 1) & (curve.upper >= curve.accuracy)).all()


def test_a_higher_level_widens_the_bands():
    wide, slim = (reliability_curve(*overconfident(), level=level) for level in (0.99, 0.5))
    inside = (slim.accuracy > 0) & (slim.accuracy < 1)
    assert inside.sum() >= 6
    assert (wide.lower < slim.lower)[inside].all()
    assert (wide.upper > slim.upper)[inside].all()


# every metric


@every_metric
@settings(max_examples=12, deadline=None)
@given(scored=SCORED, random=st.randoms(use_true_random=False))
def test_the_order_of_items_changes_nothing(metric, scored, random):
    order = random.sample(range(len(scored[0])), len(scored[0]))
    assert metric(scored[0][order], scored[1][order]) == pytest.approx(metric(*scored), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("conf", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("correct", [[True], [False], [True] * 9, [False] * 9, [True, False, False]])
def test_constant_confidence_has_known_values(conf, correct):
    """One bin holds everything, nothing is resolved and every order is equally good."""
    c, n, right = np.full(len(correct), conf), len(correct), sum(correct)
    gap, error = abs(conf - right / n), 1 - right / n
    values = {name: metric(c, correct) for name, metric in EVERY.items()}
    zeros = {name: values.pop(name) for name in ("resolution", "remainder")}
    assert zeros == pytest.approx(dict.fromkeys(zeros, 0), abs=1e-15)
    expected = {
        "brier": (conf - right / n) ** 2 + error * (1 - error),
        "reliability": gap**2,
        **dict.fromkeys(("ece width", "ece mass", "ece smooth"), gap),
        "lce": 9 * error if conf >= 0.9 else right / n,
        "aurc": error,
        "right": right * (conf >= 0.9),
        "false": (n - right) * (conf >= 0.9),
        "upper": binomtest(right, n).proportion_ci(0.9, method="exact").high,
        "lower by mass": binomtest(right, n).proportion_ci(0.9, method="exact").low,
    }
    assert values == pytest.approx(expected, abs=1e-9)


@every_metric
def test_any_layout_and_precision_gives_what_its_float64_copy_gives(metric):
    c, right = overconfident()
    for values in (c.astype(np.float16), c.astype(np.float32), c[::-1], np.asfortranarray(c), c.tolist()):
        assert metric(values, right) == metric(np.array(values, np.float64), right)
    read_only = c.copy()
    read_only.flags.writeable = False
    for answers in (right.astype(int), right.astype(np.uint8), right.astype(float), right.tolist()):
        assert metric(read_only, answers) == metric(c, right)


BAD = [
    ([0.5, 1.2], [1, 0], InvalidArray, r"conf\[1\] is 1\.2: confidence lies in \[0, 1\]"),
    ([0.5, np.nan], [1, 0], InvalidArray, r"conf\[1\] is nan"),
    ([0.5, np.inf], [1, 0], InvalidArray, r"conf\[1\] is inf"),
    ([-1e-9, 0.5], [1, 0], InvalidArray, r"conf\[0\] is -1e-09"),
    ([0.5, 0.5], [1, 0, 1], LengthMismatch, "2 items but correct has 3"),
    ([], [], InvalidArray, "conf is empty"),
    ([0.5], [], InvalidArray, "correct is empty"),
    ([[0.5], [0.6]], [1, 0], InvalidArray, r"shape \(2, 1\)"),
    (0.5, True, InvalidArray, r"shape \(\)"),
    ([0.5, 0.6], [1, 2], InvalidArray, r"correct\[1\] is 2"),
    ([0.5, 0.6], [0.5, 1], InvalidArray, r"correct\[0\] is 0\.5"),
    ([0.5, 0.6], [np.nan, 1], InvalidArray, r"correct\[0\] is nan"),
    ([0.5, 0.6], ["yes", "no"], InvalidArray, "correct has dtype <U3"),
    ([0.5, None], [1, 0], InvalidArray, "conf has dtype object"),
    ([0.5, 1j], [1, 0], InvalidArray, "conf has dtype complex128"),
    ([[0.5], [0.5, 0.6]], [1, 0], InvalidArray, "conf is ragged"),
]


@pytest.mark.parametrize(("conf", "correct", "kind", "message"), BAD)
def test_bad_arrays_are_refused_by_name(conf, correct, kind, message):
    for metric in EVERY.values():
        with pytest.raises(kind, match=message):
            metric(conf, correct)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ece([0.5], [1], bins=0), "bins is 0"),
        (lambda: ece([0.5], [1], bins=2.5), r"bins is 2\.5"),
        (lambda: ece([0.5], [1], binning="log"), "binning is 'log'"),
        (lambda: brier_decomposition([0.5], [1], bins=True), "bins is True"),
        (lambda: reliability_curve([0.5], [1], binning="smooth"), "binning is 'smooth'"),
        (lambda: reliability_curve([0.5], [1], level=1.0), "level is 1"),
        (lambda: lce([0.5], [1], threshold=1.0), "threshold is 1"),
        (lambda: lce([0.5], [1], u=-1.0), "u is -1"),
        (lambda: lce([0.5], [1], u=np.nan), "u is nan"),
        (lambda: confident([0.5], [1], 1.5), r"threshold is 1\.5"),
    ],
)
def test_bad_options_are_refused_by_name(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
