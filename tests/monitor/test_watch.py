"""Watching a field: alarms when it changed and seldom when not, and a next round that starts from the old labels."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.answers import CARRIED
from opcal.cli import main
from opcal.errors import IncompatiblePool, InvalidInput, SessionError
from opcal.metrics import brier
from opcal.monitor import history, look, next_round, shift, start_next, watch
from opcal.monitor.shift import level_of, permuted
from opcal.session import Session

CASE = make_case(n=900, seed=3)


def pool(rows, shift=0.0, case=CASE):
    return opcal.Pool.from_arrays(case.features[rows] + shift, case.logits[rows])


def begun(seed=0, rows=slice(0, 300)):
    return opcal.OperationalCalibrator("paper", random_state=seed).begin(pool(rows))


def test_what_all_looks_may_spend_is_alpha():
    assert sum(level_of(k, 0.05) for k in range(1, 10_000)) == pytest.approx(0.05, abs=1e-5)


@pytest.mark.parametrize("runs", [4, pytest.param(200, marks=pytest.mark.crash)])
def test_ten_looks_at_an_unchanged_field_seldom_alarm(runs):
    """At most .05 expected; 4 runs may show 1 by chance, 200 may show 10."""
    alarms = 0
    for seed in range(runs):
        case = make_case(n=700, seed=seed, groups=12)
        calibrator = opcal.OperationalCalibrator("paper", random_state=seed).begin(pool(slice(0, 300), case=case))
        field, rng = calibrator.field_, np.random.default_rng(seed)
        for k in range(1, 11):
            batch = pool(300 + np.sort(rng.choice(400, 80, replace=False)), case=case).outputs
            tests = shift.tests_of(field.pool, batch, field.clustering, level_of(k, 0.05), rng)
            if len(tests) * min(t.p for t in tests) <= level_of(k, 0.05):
                alarms += 1
                break
    assert alarms <= (10 if runs == 200 else 1)


@pytest.mark.parametrize("look_number", [1, 10])
def test_a_changed_field_alarms_also_late(look_number):
    found = watch(begun(), pool(slice(300, 600), shift=[2.5, 0, 0, 0, 0, 0]), look=look_number)
    assert found.alarm
    assert {t.name for t in found.tests} == {
        *("main directions", "all directions", "clusters"),
        *("confidence", "predicted classes"),
    }


def test_a_field_of_other_classes_alone_alarms_by_its_shares():
    calibrator = begun()
    kept = 300 + np.flatnonzero(pool(slice(300, 900)).predicted != 0)
    found = watch(calibrator, pool(kept))
    assert found.alarm
    assert next(t for t in found.tests if t.name == "predicted classes").p < 0.001


def test_permutations_stop_early_and_give_exact_p_values_otherwise():
    rng, asked = np.random.default_rng(0), []

    def drawn(count):
        asked.append(count)
        return rng.standard_normal(count)

    assert permuted(0.0, drawn, 0.001) == pytest.approx(0.5, abs=0.1)
    assert asked == [500]
    assert permuted(3.0, drawn, 0.0005) < 0.005
    assert sum(asked[1:]) == 8000


def test_the_expectation_falls_where_the_model_errs_more_and_strangers_count_as_unknown():
    calibrator = opcal.OperationalCalibrator("paper").fit(pool(slice(0, 300)), range(200), labels=CASE.labels[:200])
    before = calibrator.confidence(pool(slice(300, 900)))
    worst, best = 300 + np.argsort(before)[:150], 300 + np.argsort(before)[-150:]
    assert watch(calibrator, pool(worst)).now.accuracy < watch(calibrator, pool(best)).now.accuracy - 0.2
    strange = opcal.Pool.from_arrays(-50 * CASE.features[:200] + [900, 0, 0, 0, 0, 0], 9 * CASE.logits[:200])
    found = watch(calibrator, strange)
    assert found.outside.mean() > 0.9
    assert (found.posterior.above(0.9)[found.outside] < 0.5).all()


def test_wrong_input_is_refused():
    with pytest.raises(IncompatiblePool):
        watch(begun(), opcal.Pool.from_arrays(np.ones((4, 2)), np.eye(4) * 3))
    with pytest.raises(InvalidInput, match="look is 0"):
        watch(begun(), pool(slice(300, 320)), look=0)
    with pytest.raises(InvalidInput, match="half_life"):
        next_round(begun(), pool(slice(300, 320)), half_life=0)
    with pytest.raises(InvalidInput, match="days"):
        next_round(begun(), pool(slice(300, 320)), days=[1.0])


def test_old_labels_weigh_less_with_age_and_where_nobody_goes_any_more():
    calibrator = opcal.OperationalCalibrator("paper").fit(pool(slice(0, 300)), range(40), labels=CASE.labels[:40])
    same = next_round(calibrator, pool(slice(300, 600)))
    assert same.weight.mean() > 0.7
    aged = next_round(calibrator, pool(slice(300, 600)), days=np.full(40, 365.0))
    np.testing.assert_allclose(aged.weight, np.maximum(same.weight / 2, 0.05), rtol=1e-9)
    one_group = 300 + np.flatnonzero(pool(slice(300, 900)).predicted == 0)
    moved = next_round(calibrator, pool(one_group))
    there = pool(slice(0, 40)).predicted == 0
    assert moved.weight[there].mean() > moved.weight[~there].mean() + 0.2


def test_the_audit_of_the_next_round_is_drawn_from_the_new_field_alone():
    calibrator = opcal.OperationalCalibrator("paper").fit(pool(slice(0, 300)), range(60), labels=CASE.labels[:60])
    plan = next_round(calibrator, pool(slice(300, 400)))
    assert (len(plan.pool), plan.pool.columns[CARRIED][:100]) == (160, [None] * 100)
    again = opcal.OperationalCalibrator("paper", audit=1.0).begin(plan.pool)
    asked = again.ask(100)
    assert sorted(asked.tolist()) == list(range(100))
    again.tell(asked, labels=CASE.labels[300:400][asked])
    told = plan.begin(calibrator, budget=20)
    np.testing.assert_allclose(np.sort(told.answers_.weight), np.sort(plan.weight))
    assert not told.audit_.any()
    assert again.audit_.sum() == 100


def test_thirty_new_labels_beside_the_old_ones_are_worth_sixty_alone():
    """On a field half of which is new, over two splits; tests/monitor/test_shared.py does it on real digits."""
    twice, anew = [], []
    for seed in range(2):
        case = make_case(n=1200, seed=10 + seed, groups=8)
        calibrator = opcal.OperationalCalibrator(random_state=seed).begin(pool(slice(0, 400), case=case), budget=60)
        while len(i := calibrator.ask(20)):
            calibrator.tell(i, labels=case.labels[:400][i])
        new, test = pool(slice(400, 800), case=case), pool(slice(800, 1200), case=case)
        second = next_round(calibrator, new).begin(calibrator, budget=30)
        other = opcal.OperationalCalibrator(random_state=seed).begin(new, budget=60)
        for made, scores in ((second, twice), (other, anew)):
            while len(i := made.ask(20)):
                made.tell(i, labels=case.labels[400:800][i])
            scores.append(brier(made.confidence(test), test.predicted == case.labels[800:1200]))
    assert np.mean(twice) <= np.mean(anew)


@pytest.fixture
def session(tmp_path):
    with Session.start(pool(slice(0, 300)), tmp_path / "ward", budget=30, method="paper") as made:
        made.background = False
        while tasks := made.lease("ann", 10):
            for task in tasks:
                made.answer("ann", task.item, int(CASE.labels[task.position]))
        yield made


def test_looks_are_counted_across_processes_and_the_history_spans_rounds(session, tmp_path):
    assert look(session, pool(slice(300, 500))).look == 1
    with Session.open(session.folder) as again:
        assert look(again, pool(slice(300, 500), shift=3.0), name="june").look == 2
    with start_next(session, pool(slice(300, 500), shift=3.0), tmp_path / "june", budget=10) as second:
        status = second.status()
        assert (status.budget, status.answered, status.labelled) == (10, 0, 30)
        tasks = second.lease("ann", 10)
        assert len(tasks) == 10
        assert all(task.position < 200 for task in tasks)
        for task in tasks:
            second.answer("ann", task.item, int(CASE.labels[300 + task.position]))
        assert second.status().done
        assert (second.calibrator().answers_.weight[:30] < 1).any()
        rounds = history(second)
    assert [r["labelled"] for r in rounds] == [30, 10]
    assert [r["brought_along"] for r in rounds] == [0, 30]
    assert [k["alarm"] for k in rounds[0]["looks"]] == [False, True]
    (session.folder / "rounds.json").write_text("{")
    with pytest.raises(SessionError, match=r"rounds\.json is broken"):
        look(session, pool(slice(300, 500)))


def test_the_command_tells_what_changed_and_starts_the_next_round(session, tmp_path):
    def run(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    pool(slice(300, 500)).save(tmp_path / "may")
    pool(slice(300, 500), shift=3.0).save(tmp_path / "june")
    out = run("watch", session.folder, tmp_path / "may", "--exit-code")
    assert (out.exit_code, "No change was found" in out.output) == (0, True)
    table = tmp_path / "items.parquet"
    changed = ("watch", session.folder, tmp_path / "june", "--next", tmp_path / "w2", "--budget", 5, "--out", table)
    out = run(*changed)
    assert out.exit_code == 0, out.output
    for text in ("CHANGED", "expected accuracy", "outside", "opcal ask"):
        assert text in out.output
    assert pq.read_table(table).num_rows == 200
    told = json.loads(run("watch", session.folder, tmp_path / "june", "--json").output)
    assert (told["look"], told["alarm"]) == (3, True)
    assert run("watch", session.folder, tmp_path / "june", "--exit-code").exit_code == 1
    shown = run("watch", tmp_path / "w2", "--history").output
    assert "round 2" in shown
    assert "brought along" in shown
    assert run("watch", session.folder).exit_code == 2
    assert run("status", tmp_path / "w2").exit_code == 0
