"""The labelling page as people use it: a real server process, a real browser. `make browser` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from labelling_place import ARTEFACTS, Person, Server, axe

from opcal import Pool
from opcal.data import load_pneumonia
from opcal.session import Session
from opcal.web.labelling.demo import demo_session, write_images

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
CUT = float(os.environ.get("OPCAL_CUT", "120"))
"""Seconds for which the network is cut."""
CASE = load_pneumonia()
TRUTH = dict(zip(CASE.ids, (str(label + 1) for label in CASE.labels.tolist()), strict=True))
"""The key that answers an X-ray rightly."""


@pytest.fixture
def browser(chromium):
    return chromium


def xrays(folder: Path, n: int = 120, **settings) -> Path:
    payload = [f"{i}.png" for i in CASE.ids[:n]]
    pool = Pool.from_arrays(CASE.features[:n], CASE.logits[:n], ids=CASE.ids[:n], classes=CASE.classes, payload=payload)
    Session.start(pool, folder, **{"budget": 12} | settings).close()
    write_images(CASE, folder / "media")
    return folder


@pytest.fixture
def server(tmp_path):
    made = Server(xrays(tmp_path / "ward"))
    yield made
    made.kill()


def test_a_whole_session_by_keyboard_alone(browser, server):
    ann = Person(browser, server)
    first = ann.answer("1")
    ann.answer("t")
    ann.press("n")
    ann.page.keyboard.type("a shadow, lower left: 1 2 t u")
    ann.press("Control+Enter")
    noted = ann.answer("2")
    ann.answer("o")
    ann.press("u")  # the item comes back at once
    ann.page.wait_for_function("() => document.querySelector('#toast').textContent.startsWith('Taken back')")
    ann.press("+", "ArrowLeft", "b", "c", "i", "r", "f", "?")
    ann.page.wait_for_selector("#help[open]")
    ann.press("Escape", "a")
    ann.page.wait_for_selector("#history[open]")
    ann.page.locator("#history .list button").last.focus()
    ann.press("Enter")  # back to the first answer
    ann.page.wait_for_selector(".chip.back")
    assert ann.item == first
    ann.answer("2")
    while not ann.page.query_selector(".rest.over"):
        if ann.page.query_selector(".answer button"):
            ann.answer(TRUTH[ann.item])
        ann.page.wait_for_timeout(50)
    ann.saved()
    ann.shot("done")
    rows = {row["item"]: row for row in server.answers()}
    assert rows[first]["answer"] == CASE.classes[1]
    assert server.status().answered == 12
    assert sum(row["answer"] == "skip" for row in rows.values()) == 1
    ann.press("a")
    assert "a shadow, lower left: 1 2 t u" in ann.page.inner_text("#history")
    assert noted in rows
    times = ann.page.evaluate("performance.getEntriesByName('opcal next item').map(e => e.duration)")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    p50, p95 = np.quantile(times, [0.5, 0.95]).round(1).tolist()
    (ARTEFACTS / "next-item.json").write_text(json.dumps({"n": len(times), "p50_ms": p50, "p95_ms": p95}))
    ann.well()


def test_two_annotators_at_once_share_the_work_and_nothing_twice(browser, server):
    people = [Person(browser, server, name) for name in ("ann", "bob")]
    said = {"ann": [], "bob": []}
    for _ in range(5):
        for person, items in zip(people, said.values(), strict=True):
            items.append(person.answer(TRUTH[person.ready()]))
    for person in people:
        person.saved()
        person.well()
    assert not set(said["ann"]) & set(said["bob"])
    stored = {(row["annotator"], row["item"]) for row in server.answers()}
    assert stored == {(who, item) for who, items in said.items() for item in items}


def test_answers_survive_a_reload_before_the_server_had_them(browser, server):
    ann = Person(browser, server)
    ann.saved()
    ann.context.route("**/api/answers", lambda route: route.abort())
    given = [ann.answer("1"), ann.answer("2")]
    ann.waiting(2)
    ann.page.reload()
    ann.waiting(2)
    assert ann.ready() not in given
    assert server.answers() == []
    ann.context.unroute("**/api/answers")
    ann.saved()
    assert [row["item"] for row in server.answers()] == given
    ann.press("u")  # after a reload, undo takes the newest back
    ann.page.wait_for_function("i => document.body.dataset.item === i", arg=given[1])
    ann.saved()
    assert [row["item"] for row in server.answers()] == given[:1]
    ann.well()


def test_a_server_killed_and_started_again_loses_nothing(browser, server):
    ann = Person(browser, server)
    given = [ann.answer("1"), ann.answer("2")]
    ann.saved()
    server.kill()
    given += [ann.answer("1"), ann.answer("2")]
    ann.waiting(2)
    ann.shot("server-away")
    server.start()
    ann.saved()
    given += [ann.answer("1")]
    ann.saved()
    assert [row["item"] for row in server.answers()] == given
    ann.well()


def shown_away(person, waiting: int) -> None:
    person.page.wait_for_selector(f"#waiting[data-waiting='{waiting}']")


def with_worker(person) -> None:
    """Its browser has the service worker, and the page is under it."""
    person.page.evaluate("navigator.serviceWorker.ready.then(() => 0)")
    person.page.wait_for_function("() => navigator.serviceWorker.controller")


KEPT = """async () => {
  const found = [];
  for (const name of await caches.keys())
    for (const request of await (await caches.open(name)).keys()) found.push(new URL(request.url).pathname);
  return found.sort(); }"""


def test_a_reload_while_the_server_is_away_shows_what_waits_and_nothing_of_patients_is_kept(browser, server):
    ann = Person(browser, server)
    given = [ann.answer("1")]
    ann.saved()
    with_worker(ann)
    ann.page.goto(server.base + "/overview")
    ann.page.wait_for_selector("#clusters li")
    ann.page.goto(server.base + "/")
    ann.ready()
    ann.page.wait_for_timeout(1500)  # the next three are at hand
    server.kill()
    given += [ann.answer("1"), ann.answer("2")]
    ann.waiting(2)
    ann.page.reload()
    shown_away(ann, 2)
    assert all(item in ann.page.inner_text("#away") for item in given[1:])
    assert axe(ann.page) == []
    ann.shot("away")
    ann.page.goto(server.base + "/map")
    shown_away(ann, 2)
    kept = ann.page.evaluate(KEPT)
    assert kept == [
        f"/static/{f}" for f in ("away.html", "away.js", "dom.js", "icon.svg", "style.css", "texts.js", "texts.json")
    ]
    server.start()
    ann.page.wait_for_url(server.base + "/map")
    ann.page.wait_for_selector("body[data-ready]")
    ann.page.goto(server.base + "/")
    ann.saved()
    assert [row["item"] for row in server.answers()] == given
    assert ann.page.evaluate(KEPT) == kept
    ann.well()


def test_another_session_on_the_same_port_gets_none_of_the_answers_that_wait(browser, tmp_path):
    first = Server(xrays(tmp_path / "first"))
    port = first.base.rsplit(":", 1)[1]
    ann = Person(browser, first)
    with_worker(ann)
    ann.ready()
    ann.page.wait_for_timeout(1500)
    first.kill()
    given = [ann.answer("1"), ann.answer("2")]
    ann.page.reload()
    shown_away(ann, 2)
    second = Server(xrays(tmp_path / "second"), "--port", port)
    try:
        assert second.base == first.base
        ann.page.wait_for_function("() => document.body.innerText.includes('not signed in')")
        assert second.answers() == []
        ann.page.goto(second.links["ann"])
        ann.page.wait_for_url(second.base + "/")
        ann.saved()
        assert second.answers() == []
    finally:
        second.kill()
    first.more = ("--port", port)
    first.start()
    try:
        ann.page.goto(first.links["ann"])
        ann.page.wait_for_url(first.base + "/")
        ann.saved()
        assert [row["item"] for row in first.answers()] == given
        ann.well()
    finally:
        first.kill()


def answers_there(base: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(base).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody answers at {base}"
            time.sleep(0.1)


@pytest.mark.parametrize("seen", [True, False], ids=["there", "just-coming"])
def test_the_worker_leaves_when_another_program_lives_at_the_address(browser, tmp_path, seen):
    ward = Server(xrays(tmp_path / "ward"))
    ann = Person(browser, ward)
    with_worker(ann)
    ward.kill()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text("<p id=other>another program")
    port = ward.base.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", str(tmp_path / "other")]
    other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if seen:
            answers_there(ward.base)
        ann.page.goto(ward.base + "/")
        ann.page.wait_for_selector("#other")
        gone = "async () => !(await navigator.serviceWorker.getRegistrations()).length && !(await caches.keys()).length"
        ann.page.wait_for_function(gone)
    finally:
        other.kill()
        other.wait()


def test_a_cut_network_keeps_the_answers_until_it_is_back(browser, server):
    ann = Person(browser, server)
    ann.ready()
    ann.page.wait_for_timeout(1500)  # the next three are at hand
    ann.context.set_offline(True)
    given = [ann.answer(key) for key in "121"]
    ann.press("u")
    back = given.pop()
    ann.waiting(4)
    assert ann.item == back
    time.sleep(CUT)
    ann.context.set_offline(False)
    ann.saved()
    given.append(ann.answer("2"))
    assert given[-1] == back
    ann.saved()
    assert [row["item"] for row in server.answers()] == given
    ann.well()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_it_fits_and_axe_finds_nothing_serious(browser, server, scheme, width):
    size = {"viewport": {"width": width, "height": 812 if width == 375 else 900}, "color_scheme": scheme}
    phone = {"has_touch": True, "is_mobile": True, "device_scale_factor": 2} if width == 375 else {}
    ann = Person(browser, server, reduced_motion="reduce", **size, **phone)
    for _ in range(4):
        button = ann.page.locator(f".class >> nth={int(TRUTH[ann.ready()]) - 1}")
        item = ann.item
        button.tap() if phone else button.click()
        ann.page.wait_for_function("i => document.body.dataset.item !== i", arg=item)
    ann.page.wait_for_selector("#panel .figure")
    found = {}
    ann.page.wait_for_function("() => document.querySelector('.frame img')?.complete")
    ann.shot(f"label-{width}-{scheme}")
    found["label"] = axe(ann.page)
    wide = [ann.page.evaluate("document.documentElement.scrollWidth")]
    for dialog in ("history", "help"):
        ann.press("a" if dialog == "history" else "?")
        ann.page.wait_for_selector(f"#{dialog}[open]")
        found[dialog] = axe(ann.page)
        ann.press("Escape")
    for page in ("overview", "map"):
        ann.page.goto(f"{server.base}/{page}")
        ann.page.wait_for_selector("#clusters li, #legend > *")
        ann.page.wait_for_timeout(500)
        ann.shot(f"{page}-{width}-{scheme}", full_page=True)
        found[page] = axe(ann.page)
        wide.append(ann.page.evaluate("document.documentElement.scrollWidth"))
    assert {where: bad for where, bad in found.items() if bad} == {}
    assert max(wide) <= width
    ann.well()


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Sixty labels, half of them drawn at random."""
    folder = xrays(tmp_path_factory.mktemp("audited") / "ward", n=400, budget=80, audit=0.5)
    labels = dict(zip(CASE.ids, CASE.labels.tolist(), strict=True))
    with Session.open(folder) as session:
        session.background = False
        for task in session.lease("ann", 60):
            session.answer("ann", task.item, int(labels[task.item]))
    made = Server(folder)
    yield made
    made.kill()


LOOKS = {
    "desktop": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2, "is_mobile": True},
    "phone-dark": {"viewport": {"width": 375, "height": 812}, "is_mobile": True, "color_scheme": "dark"},
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_reliability_diagram_is_drawn_from_sixteen_random_labels_on(browser, audited, look):
    ann = Person(browser, audited, **LOOKS[look])
    chart = "svg[aria-label^=Reliability]"
    ann.page.wait_for_selector(f"#panel {chart} .after circle")
    panel = ann.page.evaluate("fetch('/api/panel').then(r => r.json())")
    assert panel["audited"] >= 16
    for kind in ("before", "after"):
        points = ann.page.eval_on_selector_all(
            f"{chart} .{kind} circle", "all => all.map(c => [c.cx.baseVal.value, c.cy.baseVal.value])"
        )
        of = panel["reliability"][kind]
        # x and y from 0 to 1 are 34 to 270 and 122 to 10 in the diagram.
        drawn = [((x - 34) / 236, (122 - y) / 112) for x, y in points]
        np.testing.assert_allclose(drawn, list(zip(of["confidence"], of["accuracy"], strict=True)), atol=0.002)
    ann.page.wait_for_function("() => document.querySelector('.frame img')?.complete")
    ann.shot(f"reliability-{look}", full_page=True)
    ann.page.locator("#panel").screenshot(path=ARTEFACTS / f"reliability-panel-{look}.png")
    assert axe(ann.page) == []
    ann.page.goto(audited.base + "/overview")
    ann.page.wait_for_selector(f"#worth {chart} .after circle")
    ann.shot(f"reliability-overview-{look}", full_page=True)
    ann.well()


def test_a_thousand_classes_are_found_by_typing_and_any_name_is_shown_as_text(browser, tmp_path):
    r = np.random.default_rng(0)
    names = [f"species {i}" for i in range(996)] + ['<b>"bold"</b>', "it's", "Épée", "صورة"]
    pool = Pool.from_arrays(
        r.normal(size=(40, 4)), r.normal(size=(40, 1000)), classes=names, ids=[f"é{i}<i>🫁" for i in range(40)],
        payload=[f"A text with <mark>marked</mark> words and <script>alert({i})</script>" for i in range(40)],
        columns={"age <b>": list(range(40))},
    )  # fmt: skip
    Session.start(pool, tmp_path / "many", budget=6).close()
    server = Server(tmp_path / "many")
    try:
        ann = Person(browser, server)
        for typed, meant in (("bold", names[996]), ("epee", "Épée"), ("صورة", "صورة"), ("species 77", "species 77")):
            item = ann.ready()
            ann.page.wait_for_function("() => document.activeElement.getAttribute('role') === 'combobox'")
            ann.page.keyboard.type(typed)
            assert meant in ann.page.inner_text("[aria-selected=true]")
            ann.press("Enter")
            ann.page.wait_for_function("i => document.body.dataset.item !== i", arg=item)
            ann.saved()
            assert [r["answer"] for r in server.answers() if r["item"] == item] == [meant]
        assert ann.page.inner_text(".reading mark") == "marked"
        assert "<script>" in ann.page.inner_text(".reading")
        assert "age <b>" in ann.page.inner_text(".tableview")
        assert axe(ann.page) == []
        ann.press("Escape")
        ann.page.evaluate(
            "(() => { const t = document.querySelector('.reading').firstChild;"
            "getSelection().setBaseAndExtent(t, 2, t, 6) })()"
        )
        ann.press("h")
        assert ann.page.inner_text("mark.own") == "text"
        ann.page.reload()
        ann.page.wait_for_selector("mark.own")
        assert ann.page.inner_text("mark.own") == "text"
        ann.shot("text-and-a-thousand-classes")
        ann.well()
    finally:
        server.kill()


def test_right_or_wrong_answers_and_the_mode_is_kept(browser, tmp_path):
    server = Server(xrays(tmp_path / "ward", blind="none"))
    try:
        ann = Person(browser, server)
        ann.ready()
        ann.press("m")
        assert ann.page.inner_text(".choices").split() == ["1", "Right", "2", "Wrong"]
        wrong = ann.answer("2")
        ann.saved()
        ann.page.reload()
        ann.ready()
        assert "Wrong" in ann.page.inner_text(".choices")
        assert [row["answer"] for row in server.answers() if row["item"] == wrong] == ["wrong"]
        ann.well()
    finally:
        server.kill()


def test_a_hundred_thousand_points_are_drawn_and_a_click_shows_the_item(browser, tmp_path):
    r = np.random.default_rng(0)
    z = r.normal(size=(100_000, 8)).astype(np.float32) + 6 * r.integers(0, 2, (100_000, 8))
    pool = Pool.from_arrays(z, (z @ r.normal(size=(8, 3))).astype(np.float32), payload=["words"] * len(z))
    Session.start(pool, tmp_path / "large", budget=4, method="paper", design="random").close()
    server = Server(tmp_path / "large")
    try:
        ann = Person(browser, server)
        ann.page.goto(server.base + "/map")
        ann.page.wait_for_selector("body[data-ready]")
        canvas = ann.page.locator("#canvas")
        canvas.focus()
        ann.press(*["ArrowLeft", "+", "ArrowUp"] * 6, "Enter")
        ann.page.wait_for_selector("#chosen dl")
        canvas.click(position={"x": 300, "y": 200})
        painted = ann.page.evaluate(
            "(() => { const c = document.querySelector('#canvas');"
            "const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "return new Set(new Uint32Array(pixels.buffer)).size })()"
        )
        assert painted > 10
        frames = ann.page.evaluate("performance.getEntriesByName('opcal map').map(e => e.duration)")
        p50, p95 = np.quantile(frames, [0.5, 0.95]).round(1).tolist()
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / "map-frames.json").write_text(json.dumps({"n": len(frames), "p50_ms": p50, "p95_ms": p95}))
        ann.shot("map-100000")
        ann.well()
    finally:
        server.kill()


def test_a_new_user_labels_twenty_xrays_of_the_demo_and_sees_the_numbers_move(browser, tmp_path):
    demo_session(tmp_path).close()
    server = Server(tmp_path / "session")
    try:
        ann = Person(browser, server)
        for count in range(20):
            ann.answer(TRUTH[ann.ready()])
            if count == 2:
                ann.page.wait_for_selector("#panel .figure")
                before = ann.page.inner_text("#panel")
        ann.page.wait_for_function("() => document.querySelector('#panel .big strong')?.textContent === '20'")
        ann.page.wait_for_selector("#panel .key.measured")
        assert ann.page.inner_text("#panel") != before
        assert "With 20 more labels" in ann.page.inner_text("#panel")
        ann.shot("demo-20-labels")
        ann.page.goto(server.base + "/overview")
        ann.page.wait_for_selector("#clusters li")
        ann.page.wait_for_timeout(1000)
        ann.shot("demo-overview", full_page=True)
        ann.page.goto(server.base + "/map")
        ann.page.wait_for_selector("body[data-ready]")
        ann.page.locator("#canvas").click(position={"x": 640, "y": 300})
        ann.page.wait_for_selector("#chosen dl")
        ann.page.locator("input[value=correction]").check()
        ann.page.wait_for_timeout(800)
        ann.shot("demo-map")
        ann.well()
    finally:
        server.kill()


def test_schemathesis_finds_no_server_error(server):
    token = server.links["ann"].rsplit("/", 1)[1]
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", server.base + "/openapi.json",
        "-H", f"Authorization: Bearer {token}", "--checks", "not_a_server_error", "--max-examples", "15",
        "--exclude-path", "/api/live", "--phases", "examples,coverage,fuzzing", "--seed", "1",
    ]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-1000:]
