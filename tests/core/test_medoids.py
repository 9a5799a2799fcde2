"""k-medoids: a local optimum on small pools, close to it on large ones, right on hard ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from opcal.core import medoids
from opcal.core.medoids import cluster
from opcal.core.swaps import best_medoids


def rng(seed=0):
    return np.random.default_rng(seed)


def groups(n=300, k=5, d=4, seed=0):
    r = rng(seed)
    at = r.integers(0, k, n)
    return 10 * r.standard_normal((k, d))[at] + 0.5 * r.standard_normal((n, d)), at


def loss(x, chosen):
    return cdist(x, x[chosen]).min(1).sum()


@pytest.mark.parametrize("seed", range(8))
def test_no_single_swap_lowers_the_loss(seed):
    x = rng(seed).standard_normal((40, 3))
    found = cluster(x, 4, rng(seed))
    assert found.loss == pytest.approx(loss(x, found.medoids))
    for out in range(4):
        for new in set(range(40)) - set(found.medoids.tolist()):
            swapped = found.medoids.copy()
            swapped[out] = new
            assert loss(x, swapped) >= found.loss * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_on_tiny_pools_the_loss_is_within_a_tenth_of_the_best_there_is(seed):
    x = rng(seed).standard_normal((14, 2))
    best = min(loss(x, list(chosen)) for chosen in combinations(range(14), 3))
    assert cluster(x, 3, rng(seed)).loss <= 1.1 * best


def test_one_medoid_is_the_point_nearest_to_all():
    x = rng(1).standard_normal((80, 3))
    assert cluster(x, 1, rng()).medoids[0] == cdist(x, x).sum(1).argmin()


def test_weights_count_as_copies():
    x, weights = rng(2).standard_normal((30, 2)), np.arange(30) % 4 + 1.0
    copies = np.repeat(x, weights.astype(int), axis=0)
    chosen = best_medoids(cdist(x, x), weights, 3, rng(3))
    for out in range(3):
        for new in range(30):
            swapped = chosen.copy()
            swapped[out] = new
            assert cdist(copies, x[swapped]).min(1).sum() >= cdist(copies, x[chosen]).min(1).sum() - 1e-9


def test_clear_groups_are_found_whatever_the_order_of_rows():
    x, at = groups()
    for seed in range(3):
        order = rng(seed).permutation(len(x))
        found = cluster(x[order], 5, rng(seed)).assignment
        together = (found[:, None] == found[None]) == (at[order][:, None] == at[order][None])
        assert together.all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_far_from_zero_cluster_as_those_at_zero(dtype):
    x, at = groups()
    moved = (x / 100 + 1000).astype(dtype) if dtype is not np.float16 else x.astype(dtype)
    found = cluster(moved, 5, rng()).assignment
    assert ((found[:, None] == found[None]) == (at[:, None] == at[None])).all()


def test_a_large_pool_is_clustered_nearly_as_well_as_by_all_pairs(monkeypatch):
    x = rng(4).standard_normal((1500, 8))
    exact = cluster(x, 12, rng(0)).loss
    monkeypatch.setattr(medoids, "WHOLE", 300)
    monkeypatch.setattr(medoids, "JUDGES", 1000)
    monkeypatch.setattr(medoids, "CENTRAL", 240)
    monkeypatch.setattr(medoids, "FAR", 50)
    monkeypatch.setattr(medoids, "DRAWN", 50)
    assert cluster(x, 12, rng(0)).loss <= 1.02 * exact


def test_a_memory_mapped_large_pool_gives_the_clusters_of_the_array(monkeypatch, tmp_path):
    monkeypatch.setattr(medoids, "WHOLE", 200)
    x = groups(900)[0].astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = cluster(np.load(tmp_path / "x.npy", mmap_mode="r"), 5, rng())
    np.testing.assert_array_equal(mapped.assignment, cluster(x, 5, rng()).assignment)


@pytest.mark.parametrize("whole", [10, 5000])
@pytest.mark.parametrize(
    ("n", "distinct", "k", "expected"), [(1, 1, 3, 1), (50, 1, 4, 1), (50, 3, 10, 3), (50, 50, 50, 50)]
)
def test_there_are_never_more_clusters_than_distinct_rows(monkeypatch, whole, n, distinct, k, expected):
    monkeypatch.setattr(medoids, "WHOLE", whole)
    x = rng().standard_normal((distinct, 3))[np.arange(n) % distinct]
    found = cluster(x, k, rng())
    assert len(found.medoids) <= expected
    if whole == 5000:
        assert len(found.medoids) == expected
    assert len(np.unique(x[found.medoids], axis=0)) == len(found.medoids)


def test_a_medoid_lost_to_duplicates_in_the_sample_is_refilled(monkeypatch):
    monkeypatch.setattr(medoids, "WHOLE", 60)
    x = np.zeros((2000, 2))
    x[:40] = 50 * rng(5).standard_normal((40, 2))
    assert len(cluster(x, 10, rng(1)).medoids) == 10


def test_new_rows_go_where_the_same_pool_rows_went():
    x, _ = groups(400, 7)
    for dtype in (np.float32, np.float64):
        found = cluster(x.astype(dtype), 7, rng())
        np.testing.assert_array_equal(found.assign(x.astype(dtype)[::-1]), found.assignment[::-1])
        np.testing.assert_array_equal(found.assign(x[found.medoids].astype(dtype)), np.arange(7))


def test_the_same_seed_gives_the_same_medoids():
    x, _ = groups(500, 6)
    np.testing.assert_array_equal(cluster(x, 20, rng(9)).medoids, cluster(x, 20, rng(9)).medoids)


def test_heavy_tails_are_not_missed_by_the_sample(monkeypatch):
    x = rng(6).standard_normal((1500, 6)) / np.sqrt(rng(7).chisquare(1, 1500))[:, None]
    exact = cluster(x, 8, rng(0)).loss
    monkeypatch.setattr(medoids, "WHOLE", 200)
    monkeypatch.setattr(medoids, "JUDGES", 900)
    assert cluster(x, 8, rng(0)).loss <= 1.02 * exact


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_gets_the_same_cluster_alone_in_any_company_and_in_any_precision(dtype):
    # Corners of a cube: nearly every row lies as near to one medoid as to another.
    x = rng(8).integers(0, 2, (700, 12)).astype(dtype)
    found = cluster(x, 9, rng())
    exact = cdist(x.astype(np.float64), x[found.medoids].astype(np.float64), "sqeuclidean").round(9).argmin(1)
    at_distance = cdist(x.astype(np.float64), x[found.medoids].astype(np.float64))
    chosen = at_distance[np.arange(700), found.assignment]
    np.testing.assert_allclose(chosen, at_distance[np.arange(700), exact])
    np.testing.assert_array_equal(np.concatenate([found.assign(row[None]) for row in x]), found.assignment)
    np.testing.assert_array_equal(found.assign(x.astype(np.float64)), found.assignment)
    np.testing.assert_array_equal(found.assign(np.asfortranarray(x)), found.assignment)
    np.testing.assert_array_equal(found.assign(x[100:137]), found.assignment[100:137])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates_of_a_medoid_go_to_it_though_another_is_close(dtype):
    x = (1000 + np.repeat(rng(9).standard_normal((40, 5)), 3, axis=0)).astype(dtype)
    x[::3] += dtype(1e-3)
    found = cluster(x, 60, rng())
    same = (x[:, None] == x[found.medoids][None]).all(-1)
    copies = same.any(1)
    np.testing.assert_array_equal(found.assignment[copies], same[copies].argmax(1))


def test_moving_all_features_by_a_thousand_leaves_the_clusters_alone_in_float32():
    x, _ = groups(600, 6, 16, seed=3)
    x = np.round(x * 64) / 64  # so that adding 1,000 is exact in float32
    near, far = cluster(x.astype(np.float32), 6, rng(1)), cluster((x + 1000).astype(np.float32), 6, rng(1))
    np.testing.assert_array_equal(near.assignment, far.assignment)
    assert far.loss == pytest.approx(near.loss, rel=1e-5)


@pytest.mark.parametrize("n", [300, 900])
def test_the_loss_is_the_sum_of_distances_to_the_assigned_medoids(monkeypatch, n):
    monkeypatch.setattr(medoids, "WHOLE", 400)
    x = rng(2).standard_normal((n, 7))
    found = cluster(x, 11, rng())
    assert found.loss == pytest.approx(cdist(x, x[found.medoids]).min(1).sum())
    np.testing.assert_array_equal(found.medoids, np.unique(found.medoids))
    np.testing.assert_allclose(found.points + found.centre, x[found.medoids])
