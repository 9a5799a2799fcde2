"""A pool of any size to a table, in one process or many, and what is outside is told."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.artifact import scoring
from opcal.cli import main
from opcal.core.fence import Fence, fenced
from opcal.errors import IncompatiblePool, PoolError, UnknownOption
from opcal.pool import streaming
from opcal.session import Session

CASE = make_case(n=240)


@pytest.fixture
def artifact(tmp_path):
    calibrator = opcal.OperationalCalibrator("paper").fit(CASE.pool, range(40), labels=CASE.labels[:40])
    calibrator.save(tmp_path / "x.opcal")
    return calibrator, tmp_path / "x.opcal"


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_the_table_holds_what_the_calibrator_says_whatever_the_blocks(artifact, tmp_path, monkeypatch):
    calibrator, path = artifact
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=[f"i{k}" for k in range(240)])
    pool.save(tmp_path / "pool")
    monkeypatch.setattr(streaming, "ROWS", 37)
    seen = []
    rows = scoring.score(path, tmp_path / "pool", tmp_path / "f.parquet", progress=lambda *at: seen.append(at))
    table, stored = pq.read_table(tmp_path / "f.parquet"), opcal.Pool.open(tmp_path / "pool")
    assert (rows, seen[-1], table["id"].to_pylist()) == (240, (240, 240), pool.ids)
    np.testing.assert_allclose(table["confidence"], calibrator.confidence(stored), rtol=0, atol=1e-7)
    np.testing.assert_allclose(table["above"], calibrator.posterior(stored).above(0.9), rtol=0, atol=1e-5)
    assert not any(table["outside"].to_pylist())
    part = list(streaming.Stream.open(tmp_path / "pool").blocks(30, 80))
    assert [i for ids, _ in part for i in ids] == pool.ids[30:80]


def test_items_like_no_other_are_flagged_and_never_sure(artifact, tmp_path):
    loaded = opcal.load(artifact[1])
    strange = opcal.Pool.from_arrays(-9 * CASE.features[:, ::-1] + [90, 0, 0, 0, 0, 0], 9 * CASE.logits)
    assert loaded.outside(strange).mean() > 0.8
    assert loaded.outside(CASE.pool).mean() < 0.02
    judged = loaded.judged(strange.outputs)
    assert (judged.confidence[judged.outside] <= 0.5).all()
    assert (judged.above[judged.outside] < 0.5).all()
    assert not judged.act[judged.outside].any()


@pytest.mark.parametrize(("n", "rows"), [(100, 64), (400, 64), (3000, 64), (3000, 1000)])
def test_of_the_fields_own_items_one_in_fifty_is_outside_when_looked_at_alone(n, rows):
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        draw = lambda size, rng=rng: rng.standard_t(4, (size, 6)) + np.arange(6)  # noqa: E731
        shares.append(Fence.of(draw(n), rng, rows).outside(draw(1000)).mean())
    assert np.mean(shares) == pytest.approx(0.02, abs=4 * np.std(shares) / 40**0.5 + 0.003)


def test_a_field_of_fewer_than_fifty_items_flags_only_what_is_clearly_farther_off():
    rng = np.random.default_rng(0)
    field = rng.standard_normal((30, 4)) + 2
    fence = Fence.of(field, rng)
    assert fence.reach == 1.1 * fence.known[-1]
    assert fence.outside(field).sum() == 0
    assert fence.outside(-field - 5).all()


def test_a_batch_full_of_strangers_shows_more_of_them_than_each_alone():
    rng = np.random.default_rng(0)
    field, same = rng.standard_normal((500, 40)) + 1, rng.standard_normal((300, 40)) + 1
    moved = same + np.r_[np.full(3, 9.0), np.zeros(37)]
    fence = Fence.of(field, rng)
    assert fence.outside_of_batch(same).mean() <= 0.01
    assert fence.outside_of_batch(moved).mean() > fence.outside(moved).mean() + 0.1
    flagged = sum(fence.outside_of_batch(rng.standard_normal((50, 40)) + 1).any() for _ in range(40))
    assert flagged <= 8


def test_the_posterior_of_what_is_inside_stays_as_it_is(artifact):
    posterior = artifact[0].posterior(CASE.pool)
    none = np.zeros(240, bool)
    assert fenced(posterior, none) is posterior
    some = fenced(posterior, np.arange(240) < 3)
    np.testing.assert_array_equal(some.mean[3:], posterior.mean[3:])
    np.testing.assert_allclose(some.above(0.7)[3:], posterior.above(0.7)[3:])
    assert (some.above(0.9)[:3] < 0.5).all()
    low, high = some.interval(0.5)
    assert (low <= some.mean).all()
    assert (some.mean <= high).all()


def test_memory_does_not_grow_with_the_pool(artifact, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "ROWS", 2048)
    peaks = []
    for n in (10_000, 80_000):
        rng = np.random.default_rng(0)
        big = opcal.Pool.from_arrays(rng.normal(size=(n, 6)).astype("f4"), rng.normal(size=(n, 4)).astype("f4"))
        big.save(tmp_path / "pool")
        tracemalloc.start()
        scoring.score(artifact[1], tmp_path / "pool", tmp_path / "f.parquet")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_wrong_pools_and_engines_are_refused_and_nothing_is_written(artifact, tmp_path):
    opcal.Pool.from_arrays(np.ones((3, 2)), np.eye(3)[:, :2] * 4).save(tmp_path / "other")
    with pytest.raises(IncompatiblePool, match="2 features"):
        scoring.score(artifact[1], tmp_path / "other", tmp_path / "f.parquet")
    with pytest.raises(PoolError, match="does not exist"):
        scoring.score(artifact[1], tmp_path / "none", tmp_path / "f.parquet")
    CASE.pool.save(tmp_path / "pool")
    with pytest.raises(UnknownOption, match="engine"):
        scoring.score(artifact[1], tmp_path / "pool", tmp_path / "f.parquet", engine="there")
    (tmp_path / "pool" / "features.npy").write_bytes(b"broken")
    with pytest.raises(PoolError, match="broken"):
        scoring.score(artifact[1], tmp_path / "pool", tmp_path / "f.parquet")
    assert not list(tmp_path.glob("*.parquet")) + list(tmp_path.glob(".f*"))


def test_the_commands_export_inspect_and_score_work_as_typed(tmp_path):
    CASE.pool.save(tmp_path / "pool")
    with Session.start(CASE.pool, tmp_path / "ward", budget=40) as session:
        while tasks := session.lease("ann", 10):
            for task in tasks:
                session.answer("ann", task.item, int(CASE.labels[task.position]))
        expected = session.calibrator().confidence(opcal.Pool.open(tmp_path / "pool"))
    out = run("export", tmp_path / "ward", "--out", tmp_path / "w.opcal")
    assert (out.exit_code, "Next: opcal inspect" in out.output) == (0, True)
    shown = run("inspect", tmp_path / "w.opcal").output
    for text in ("method auto", "40 answers", "audit", "assumes", "signed     no", "brier held out"):
        assert text in shown
    about = json.loads(run("inspect", tmp_path / "w.opcal", "--json").output)
    assert (about["fitted"]["answers"], about["audit"]["items"], about["version"]) == (40, 10, 1)
    done = run("score", tmp_path / "w.opcal", tmp_path / "pool", "--out", tmp_path / "f.parquet", "--json")
    assert json.loads(done.output)["rows"] == 240
    np.testing.assert_allclose(pq.read_table(tmp_path / "f.parquet")["confidence"], expected, rtol=0, atol=1e-9)
    assert run("export", tmp_path / "ward").exit_code == 2
    (tmp_path / "costs.yaml").write_text("loss: 3\nactions: {person: {cost: 0.5}}\n")
    out = run("export", tmp_path / "ward", "--out", tmp_path / "c.opcal", "--costs", tmp_path / "costs.yaml")
    assert out.exit_code == 0
    assert "costs      by class, of act, person" in run("inspect", tmp_path / "c.opcal").output
    assert json.loads(run("inspect", tmp_path / "c.opcal", "--json").output)["actions"] == ["act", "person"]
    assert run("inspect", tmp_path / "none.opcal").exit_code == 1
    for name in ("export", "inspect", "score"):
        assert "Example:" in run(name, "--help").output


def test_the_costs_that_a_session_keeps_are_in_what_it_exports(tmp_path):
    costs = {"loss": 3, "actions": {"person": {"cost": 0.5, "capacity": 7}, "no": {"gain": 0}}}
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, classes=list("abcd"))
    with Session.start(pool, tmp_path / "ward", budget=10, costs=costs, method="paper") as session:
        own = session.calibrator().costs
    assert run("export", tmp_path / "ward", "--out", tmp_path / "w.opcal").exit_code == 0
    loaded = opcal.load(tmp_path / "w.opcal")
    np.testing.assert_array_equal(loaded.costs_.gains, own.gains)
    assert loaded.decisions(pool).counts["person"] <= 7
