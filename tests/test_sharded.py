"""The paper's design over a pool in several places chooses what one process chooses, bit by bit."""

from __future__ import annotations

import os

import numpy as np
import pytest

import opcal
from opcal import errors, sharded
from opcal.core.sharding import cuts, owners
from opcal.methods import Paper


def case(n, d, seed=0, dtype=np.float32, duplicates=40):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((20, d))[rng.integers(0, 20, n)] + rng.standard_normal((n, d))
    z[n // 2 : n // 2 + duplicates] = z[:duplicates]
    h = np.resize(z.T, (4, n)).T + rng.standard_normal((n, 4))
    y = np.where(rng.random(n) < 0.7, h.argmax(1), rng.integers(0, 4, n))
    return z.astype(dtype), h.astype(np.float32), y


def asked(calibrator, pool, labels, n, batch=1):
    calibrator.begin(pool)
    out = []
    while len(out) < n:
        i = calibrator.ask(min(batch, n - len(out)))
        calibrator.tell(i, labels=labels[i])
        out += i.tolist()
    return out


def both(folder, made, n, *, shards=3, engine="local", batch=1, audit=0.25, method="paper", threshold=0.9):
    z, h, y = made
    opcal.Pool.from_arrays(z, h).save(folder / "pool")
    options = dict(audit=audit, threshold=threshold)
    one = opcal.OperationalCalibrator(method, "paper", **options)
    alone = asked(one, opcal.Pool.open(folder / "pool"), y, n, batch)
    with sharded.open(folder / "pool", shards=shards, engine=engine) as places:
        many = opcal.OperationalCalibrator(method, sharded.PaperSelection(threshold), **options)
        together = asked(many, places.pool, y, n, batch)
        new = opcal.Pool.from_arrays(*case(500, z.shape[1], seed=9)[:2])
        np.testing.assert_array_equal(many.confidence(new), one.confidence(new))
        some = places.pool.take(np.arange(0, len(z), 37))
        np.testing.assert_array_equal(many.confidence(some), one.confidence(one.pool_.take(np.arange(0, len(z), 37))))
    return alone, together


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("made", [case(15_000, 24), case(6_000, 3, seed=1), case(300, 6, seed=2)], ids=["a", "b", "c"])
def test_the_same_items_are_asked_one_by_one(tmp_path, shards, made):
    alone, together = both(tmp_path, made, 150, shards=shards)
    assert together == alone


@pytest.mark.parametrize("batch", [1, 7, 150])
def test_the_same_batches_are_asked(tmp_path, batch):
    alone, together = both(tmp_path, case(9_000, 16, seed=3), 150, batch=batch, audit=0, threshold=0.8)
    assert together == alone


def test_answers_of_less_weight_count_less_there_too(tmp_path):
    z, h, y = case(9_000, 12, seed=5)
    opcal.Pool.from_arrays(z, h).save(tmp_path / "pool")
    weight = np.random.default_rng(0).uniform(0.1, 1, 40)
    told = []
    with sharded.open(tmp_path / "pool", shards=2) as places:
        for design, pool in (("paper", opcal.Pool.open(tmp_path / "pool")), (sharded.PaperSelection(), places.pool)):
            calibrator = opcal.OperationalCalibrator("paper", design, audit=0).begin(pool)
            i = calibrator.ask(40)
            calibrator.tell(i, labels=y[i], weight=weight)
            told.append(calibrator.ask(30).tolist())
    assert told[0] == told[1]


@pytest.mark.parametrize("method", [Paper("fixed"), Paper(noise=0.0), "auto"], ids=["fixed", "noiseless", "auto"])
def test_the_same_items_are_asked_beside_other_methods(tmp_path, method):
    if method == "auto":  # its learner reads features as a whole; the selection's own posterior is sharded all the same
        method = opcal.methods.Temperature()
    alone, together = both(tmp_path, case(9_000, 12, seed=4), 120, method=method)
    assert together == alone


def test_shards_are_cut_where_chunks_begin_and_clusters_are_shared_out_evenly():
    assert cuts(10_000, 2) == [(0, 4096), (4096, 10_000)]
    assert cuts(100, 5) == [(0, 100)]
    assert cuts(1_000_000, 3)[-1][1] == 1_000_000
    assert all(a % 4096 == 0 for a, _ in cuts(1_000_000, 7))
    sizes = np.random.default_rng(0).integers(1, 1000, 60)
    load = np.bincount(owners(sizes, 4), sizes)
    assert load.max() <= 1.1 * load.min()


def test_no_place_holds_more_than_its_share_of_rows(tmp_path):
    z, h, _ = case(40_000, 8)
    opcal.Pool.from_arrays(z, h).save(tmp_path / "pool")
    with sharded.open(tmp_path / "pool", shards=4) as places:
        opcal.OperationalCalibrator("paper", sharded.PaperSelection()).begin(places.pool)
        shards = [one._shard for one in places.actors._objects]
        held = [sum(len(p.points) for p in shard._posteriors.posteriors.values()) for shard in shards]
    assert sum(held) == 40_000
    assert max(held) < 0.3 * 40_000


def test_a_pool_that_is_not_sharded_is_told(tmp_path):
    z, h, _ = case(300, 4)
    calibrator = opcal.OperationalCalibrator("paper", sharded.PaperSelection())
    with pytest.raises(errors.InvalidInput, match=r"opcal\.sharded\.open"):
        calibrator.begin(opcal.Pool.from_arrays(z, h))
    opcal.Pool.from_arrays(z, h).save(tmp_path / "pool")
    with pytest.raises(errors.InvalidInput, match="shards is 0"):
        sharded.open(tmp_path / "pool", shards=0)
    with pytest.raises(errors.UnknownOption, match="engine is 'spark'"):
        sharded.open(tmp_path / "pool", engine="spark")
    with pytest.raises(errors.PoolError):
        sharded.open(tmp_path / "none")


def test_rows_are_fetched_from_wherever_they_are(tmp_path):
    z, h, _ = case(9_000, 5)
    opcal.Pool.from_arrays(z, h).save(tmp_path / "pool")
    with sharded.open(tmp_path / "pool", shards=2) as places:
        features = places.pool.features
        rows = np.random.default_rng(0).permutation(9_000)[:200]
        np.testing.assert_array_equal(features[rows], z[rows])
        np.testing.assert_array_equal(features[4090:4100], z[4090:4100])
        np.testing.assert_array_equal(features[8_999], z[8_999])
        np.testing.assert_array_equal(np.asarray(features), z)


@pytest.mark.extract
def test_on_ray_the_same_items_are_asked_for_300_labels(tmp_path):
    pytest.importorskip("ray")
    n = int(os.environ.get("OPCAL_SHARDED", "30000"))
    alone, together = both(tmp_path, case(n, 128), 300, shards=2, engine="ray")
    assert together == alone
