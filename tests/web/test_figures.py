"""The figures of the panel, the overview and the map against what the library says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Event
from time import monotonic, sleep

import numpy as np
from conftest import make_case

from opcal import assess
from opcal.session import Event as Logged
from opcal.web.labelling import fieldmap
from opcal.web.labelling.pace import Pace
from opcal.web.labelling.worth import Worth

TRUTH = make_case(n=60).labels


def answer(site, count, who="ann"):
    client = site.as_(who)
    for _ in range(count):
        (task,) = client.post("/api/lease", json={"k": 1}).json()["tasks"]
        body = {"id": f"{who} {task['item']}", "item": task["item"], "label": int(TRUTH[int(task["item"])])}
        assert client.post("/api/answers", json=body).status_code == 200


def test_the_panel_says_what_assess_says(site):
    answer(site, 24)
    site.desk.live.update()
    panel = site.as_("ann").get("/api/panel").json()
    told = assess.accuracy(site.session.calibrator(), level=0.95)
    assert panel["measured"]["estimate"] == told.estimate
    assert (panel["measured"]["lower"], panel["measured"]["upper"]) == (max(told.lower, 0), min(told.upper, 1))
    assert panel["expected"] == np.mean(site.session.calibrator().confidence(site.session.pool))
    assert panel["claimed"] == np.mean(site.session.pool.confidence)
    assert (panel["answered"], panel["budget"], panel["mine"]) == (24, 30, 24)
    assert 0 < panel["measured"]["half_then"] < panel["measured"]["half"]


def test_the_efficiency_curve_grows_with_the_labels_and_is_the_same_after_a_restart(site):
    live = Worth()
    for _ in range(3):
        answer(site, 4)
        grown = live.measure(site.session.calibrator(), None)["efficiency"]
    assert [p["labels"] for p in grown][-2:] == [8, 12]
    again = {p["labels"]: p for p in Worth().measure(site.session.calibrator(), None)["efficiency"]}
    assert {0, 12} <= again.keys()
    assert len(again) >= 6
    for point in grown:
        if point["labels"] in again:
            np.testing.assert_allclose(list(point.values()), list(again[point["labels"]].values()), atol=1e-6)


def test_the_panel_survives_whatever_goes_wrong_says_so_once_and_goes_on(site, monkeypatch, caplog):
    live, failures = site.desk.live, []

    def broken():
        failures.append(1)
        raise ZeroDivisionError("a surprise")

    monkeypatch.setattr("opcal.web.labelling.live.LOOK", 0.02)
    monkeypatch.setattr(site.session, "calibrator", broken)
    live.start()
    try:
        wait(lambda: len(failures) >= 3)
        assert [r.exc_info[0] for r in caplog.records if r.name == "opcal.label"] == [ZeroDivisionError]
        assert "claimed" not in live.now
        monkeypatch.undo()
        wait(lambda: "claimed" in live.now)
    finally:
        live.stop()


def test_progress_is_told_while_a_measurement_takes_its_time(site, monkeypatch):
    live, begun, go_on = site.desk.live, Event(), Event()
    calibrator = site.session.calibrator

    def slow():
        begun.set()
        assert go_on.wait(30)
        return calibrator()

    monkeypatch.setattr(site.session, "calibrator", slow)
    live.start()
    try:
        assert begun.wait(30)
        answer(site, 2)
        live.wake()
        wait(lambda: live.now.get("answered") == 2)
        assert "claimed" not in live.now
        go_on.set()
        wait(lambda: "claimed" in live.now)
        assert live.now["answered"] == 2
    finally:
        go_on.set()
        live.stop()


def wait(ready, seconds=30):
    end = monotonic() + seconds
    while not ready():
        assert monotonic() < end, "it never came"
        sleep(0.01)


def test_an_undone_answer_leaves_the_panel(site):
    answer(site, 3)
    site.desk.live.update()
    assert site.as_("ann").post("/api/undo", json={"id": "u"}).status_code == 200
    site.desk.live.update()
    panel = site.as_("ann").get("/api/panel").json()
    assert panel["answered"] == 2
    assert max(p["labels"] for p in panel["efficiency"]) == 2


def test_the_overview_lists_the_surest_mistakes_first_and_every_item_in_one_cluster(site):
    answer(site, 20)
    found = site.as_("owner").get("/api/overview").json()
    wrong = found["mistakes"]
    assert wrong
    assert all(m["right"] is False for m in wrong)
    assert [m["before"] for m in wrong] == sorted([m["before"] for m in wrong], reverse=True)
    assert sum(c["size"] for c in found["clusters"]) == 60
    assert sum(c["labelled"] for c in found["clusters"]) == 20


def test_a_disagreement_is_listed_and_decided(tmp_path):
    from web_site import served

    with served(tmp_path / "two", overlap=1.0, disputes="arbiter", budget=8) as site:
        for who, label in (("ann", 0), ("bob", 1)):
            client = site.as_(who)
            task = client.post("/api/lease", json={"k": 1}).json()["tasks"][0]
            client.post("/api/answers", json={"id": who, "item": task["item"], "label": label})
        arbiter = site.as_("arbiter")
        (found,) = arbiter.get("/api/disagreements").json()
        assert found["opinions"] == [["ann", "0"], ["bob", "1"]]
        decided = {"id": "d", "item": found["task"]["item"], "label": 1}
        assert arbiter.post("/api/decide", json=decided).status_code == 200
        assert arbiter.get("/api/disagreements").json() == []
        assert "arbiter" in arbiter.get("/api/export.csv").text
        assert arbiter.get("/api/overview").json()["agreement"]["items"] == 1


def test_the_map_is_the_plane_of_largest_spread():
    r = np.random.default_rng(0)
    z = r.normal(size=(3000, 8)) * np.array([1, 9, 1, 1, 4, 1, 1, 1])
    found = fieldmap.projected(z)
    for axis, column in ((0, 1), (1, 4)):
        assert abs(np.corrcoef(found[:, axis], z[:, column])[0, 1]) > 0.99
    placed = fieldmap.in_16_bits(found)
    assert placed.dtype == np.uint16
    assert (placed.min(), placed.max()) == (0, 65535)
    flat = fieldmap.in_16_bits(fieldmap.projected(np.zeros((5, 1))))  # nothing differs, in one dimension
    assert np.unique(flat).size == 1


def test_the_map_answers_one_byte_an_item(site):
    answer(site, 6)
    owner = site.as_("owner")
    assert len(owner.get("/api/map/points").content) == 60 * 4
    for by in ("confidence", "correction", "answers"):
        assert len(owner.get(f"/api/map/colours?by={by}").content) == 60
    said = np.frombuffer(owner.get("/api/map/colours?by=answers").content, np.uint8)
    right = site.session.pool.predicted == TRUTH
    assert (said > 0).sum() == 6
    np.testing.assert_array_equal(said[said > 0], np.where(right, 1, 2)[said > 0])
    assert owner.get("/api/map/item?position=60").status_code == 404


def test_the_time_left_follows_the_pace_of_those_at_work():
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def event(seq, who, seconds):
        at = (start + timedelta(seconds=seconds)).isoformat()
        return Logged(seq, str(seq), "answer", at, who, "x", 0, 1)

    pace = Pace()
    pace.take([event(1, "ann", 0), event(2, "ann", 10), event(3, "ann", 20)])
    assert pace.seconds_left(6) is None
    pace.take([event(4, "ann", 30), event(5, "ann", 1000)])  # the break says nothing
    now = start.timestamp() + 1000
    assert pace.seconds_left(6, now) == 60
    pace.take([event(6, "bob", 1000)])
    assert pace.seconds_left(6, now) == 30
