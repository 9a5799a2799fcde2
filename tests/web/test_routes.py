"""Every route, listed by the router itself: what it lets in and what it refuses."""

from __future__ import annotations

import re

import pytest

BASE = "http://127.0.0.1:8765"
UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}


def flat(routes, prefix=""):
    """Routes with those of routers and mounts inside."""
    for route in routes:
        inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", None)
        if inner:
            yield from flat(inner, prefix)
        elif getattr(route, "methods", None):
            yield from ((method, route.path) for method in sorted(route.methods))


def test_the_service_worker_is_open_holds_nothing_of_the_session_and_keeps_only_public_files_that_are_there(site):
    found = site.stranger().get("/sw.js")
    assert (found.status_code, found.headers["content-type"].split(";")[0]) == (200, "text/javascript")
    assert "VERSION" not in found.text
    assert not any(
        word in found.text for word in (site.session.settings.name, "ann", "case 0") if f'"{word}"' in found.text
    )
    shell = re.search(r"SHELL = \[(.*?)\]", found.text)[1].replace("AWAY", '"/static/away.html"')
    files = re.findall(r'"(/static/[\w.]+)"', shell)
    assert len(files) == 7
    kept = {path: site.stranger().get(path) for path in files}
    assert {answer.status_code for answer in kept.values()} == {200}
    used = {m for path in files if path.endswith((".js", ".html")) for m in IMPORTED.findall(kept[path].text)}
    assert {f"/static/{name}" for name in used} <= set(files)
    assert "worker-src 'self'" in found.headers["content-security-policy"]
    assert site.as_("ann").get("/").headers["x-opcal-page"] == "label"


IMPORTED = re.compile(r'(?:from "\./|fetch\("/static/|(?:href|src)="/static/)([\w.]+)')


def listed(app):
    found = sorted({(method, path.replace(":path}", "}")) for method, path in flat(app.routes)})
    documented = {(m.upper(), p) for p, entry in app.openapi()["paths"].items() for m in entry}
    assert documented <= set(found), "the list of routes misses what the OpenAPI document has"
    return found


def unsafe(app):
    return [(m, p.replace("{token}", "x").replace("{item}", "1")) for m, p in listed(app) if m in UNSAFE]


TRICKS = {
    "cross-site": {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    "same-site": {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
    "same-site without origin": {"origin": None, "sec-fetch-site": "same-site"},
    "null origin": {"origin": "null"},
    "wrong port": {"origin": "http://127.0.0.1:8766"},
    "wrong scheme": {"origin": "https://127.0.0.1:8765"},
    "malformed origin": {"origin": "http://[::"},
    "malformed site": {"sec-fetch-site": "\x7f;;"},
    "malformed cookie": {"cookie": "opcal=%%%;=;;\x7f", "expected": "401"},
    "no token": {"cookie": "", "expected": "401"},
    "a token with another name": {"x-opcal-annotator": "bob"},
    "a name that is no name": {"x-opcal-annotator": "%ff%"},
    "no name": {"x-opcal-annotator": None},
    "neither origin nor site": {"origin": None, "sec-fetch-site": None},
    "foreign host": {"host": "evil.example"},
}


@pytest.mark.parametrize("trick", TRICKS)
def test_every_unsafe_route_refuses_every_trick(site, trick):
    routes, before = unsafe(site.app), site.session.events()
    assert len(routes) >= 7
    for method, path in routes:
        for who in ("ann", "owner"):
            client = site.as_(who)
            given = {k: v for k, v in TRICKS[trick].items() if k != "expected"}
            if "cookie" in given:
                client.cookies.clear()
            for name in [k for k, v in given.items() if v is None]:
                client.headers.pop(name, None)
            answer = client.request(method, path, headers={k: v for k, v in given.items() if v}, json={})
            assert answer.status_code == int(TRICKS[trick].get("expected", "403")), (method, path, who, answer.text)
    assert site.session.events() == before


def test_every_route_but_the_door_and_the_static_files_needs_a_sign_in(site):
    closed = [(m, p) for m, p in listed(site.app) if not p.startswith(("/in/", "/static", "/sw.js"))]
    assert len(closed) >= 20
    for method, path in closed:
        answer = site.stranger().request(method, path.replace("{item}", "1"), headers={"origin": BASE})
        assert answer.status_code == 401, (method, path)


def test_an_annotator_cannot_do_what_is_the_owners(site):
    ours = [
        p for _, p in listed(site.app) if "people" in p or p in ("/overview", "/map", "/api/overview", "/api/decide")
    ]
    assert len(ours) >= 6
    bodies = {
        "/api/decide": {"id": "x", "item": "1", "label": 0},
        "/api/people": {"name": "eve"},
        "/api/people/renew": {"name": "bob"},
    }
    for path in ours:
        client = site.as_("ann")
        answers = [client.get(path)] + ([client.post(path, json=bodies[path])] if path in bodies else [])
        assert {a.status_code for a in answers} <= {403, 405}, path
    assert site.access.person("eve") is None


def test_an_answer_of_somebody_else_cannot_be_taken_back(site):
    client = site.as_("ann")
    task = client.post("/api/lease", json={}).json()["tasks"][0]
    receipt = client.post("/api/answers", json={"id": "a1", "item": task["item"], "label": 1}).json()
    answer = site.as_("bob").post("/api/undo", json={"id": "u1", "answer": receipt["id"]})
    assert answer.status_code == 403
    assert site.as_("bob").post("/api/answers", json={"id": "a1", "item": "3", "label": 1}).status_code == 409


def test_errors_name_no_path_and_no_traceback(site, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left", str(site.session.folder))

    monkeypatch.setattr(type(site.session), "said_by", broken)
    client = site.as_("ann")
    assert client.get("/api/mine").status_code == 500
    for answer in (client.get("/api/mine"), client.get("/nothing"), client.post("/api/answers", content=b"{")):
        assert str(site.session.folder) not in answer.text
        assert "Traceback" not in answer.text
        assert "error" in answer.json()


@pytest.mark.parametrize(
    "body",
    [
        {"id": "x", "item": "\ud800", "label": 1},
        {"id": "x", "item": "1\0", "label": 1},
        {"id": "", "item": "1", "label": 1},
        {"id": "x", "item": "1", "label": 10**30},
        {"id": "x", "item": "1", "label": True},
        {"id": "x", "item": "1", "label": 1, "correct": True},
        {"id": "x", "item": "1"},
        {"id": "x", "item": "1", "label": "no such class"},
        {"id": "x", "item": "1", "label": 1, "annotator": "bob"},
        {"id": "x", "item": "1", "label": 1, "note": "\udfff"},
        [],
        None,
    ],
    ids=str,
)
def test_a_misshapen_answer_is_refused_in_words_and_changes_nothing(site, body):
    import json

    before = site.session.events()
    answer = site.as_("ann").post(
        "/api/answers", content=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert site.session.events() == before


def test_a_link_signs_in_with_a_strict_cookie_and_a_renewed_one_is_void(site):
    old = site.access.token(site.access.person("ann"))
    assert len(old) >= 43  # 256 bits in base64
    client = site.stranger()
    answer = client.get(f"/in/{old}")
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 200
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert client.get("/api/me").json()["name"] == "ann"
    site.as_("owner").post("/api/people/renew", json={"name": "ann"})
    assert client.get("/api/me").status_code == 401
    assert site.stranger().get(f"/in/{old}").status_code == 401


def test_after_ten_wrong_links_the_address_waits(site):
    client = site.stranger()
    assert [client.get(f"/in/wrong{i}").status_code for i in range(12)] == [401] * 10 + [429] * 2
    assert client.get(f"/in/{site.access.token(site.access.person('ann'))}").status_code == 429


def test_links_and_cookies_outlive_a_restart_and_the_file_is_the_owners_alone(site):
    from opcal.web.labelling.access import Access

    again = Access(site.session.folder, site.session.settings.name)
    for person in site.access.people:
        assert again.token(person) == site.access.token(person)
        assert again.by_cookie(site.access.cookie(person)) == person
    assert (site.session.folder / "access.json").stat().st_mode & 0o077 == 0


def test_a_forged_or_expired_cookie_is_nobodys(site):
    ann, bob = site.access.person("ann"), site.access.person("bob")
    good = site.access.cookie(ann, now=1000)
    name, until, mac = good.split(".")
    theirs = site.access.cookie(bob, now=1000).split(".")
    assert site.access.by_cookie(good, now=1001) == ann
    for forged in (
        f"{theirs[0]}.{until}.{mac}",
        f"{name}.{int(until) + 1}.{mac}",
        "",
        "..",
        "a.b.c",
        f"{name}.{until}.",
    ):
        assert site.access.by_cookie(forged, now=1001) is None
    assert site.access.by_cookie(good, now=1001 + 40 * 24 * 3600) is None


def test_blind_sessions_hide_the_figures_and_the_prediction(tmp_path):
    from web_site import Site, pool_with

    from opcal.session import Session

    with Session.start(pool_with(), tmp_path / "blind", budget=20, blind="all") as session:
        site = Site(session)
        client = site.as_("ann")
        for task in client.post("/api/lease", json={"k": 6}).json()["tasks"]:
            assert task["predicted"] is None
            assert task["confidence"] is None
            client.post("/api/answers", json={"id": task["item"], "item": task["item"], "label": 1})
        site.desk.live.update()
        panel = client.get("/api/panel").json()
        assert panel["hidden"]
        assert not {"expected", "measured", "claimed", "reliability", "efficiency"} & panel.keys()
        assert panel["answered"] == 6
        assert "predicted" in client.get("/api/item?item=3").json()
        assert client.get("/api/item?item=3").json()["predicted"] is None
        assert client.get("/api/map/colours").status_code == 403
