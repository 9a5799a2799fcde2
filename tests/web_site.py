"""A session served in-process, and people who knock at it; for the tests of `web`."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from urllib.parse import quote

from opcal.pool import Pool
from opcal.session import Session

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from opcal.web.labelling.access import Access
from opcal.web.labelling.app import guarded
from opcal.web.labelling.desk import Desk

BASE = "http://127.0.0.1:8765"


class Site:
    """A served session. `as_(name)` is a browser in which that person is signed in."""

    def __init__(self, session: Session, media=None) -> None:
        self.session = session
        self.access = Access(session.folder, session.settings.name)
        for name, role in (("owner", "owner"), ("arbiter", "arbiter"), ("ann", "annotator"), ("bob", "annotator")):
            self.access.add(name, role)
        self.desk = Desk(session, self.access, media)
        self.guard = guarded(self.desk, frozenset({BASE}))
        self.app = self.guard.app

    def stranger(self) -> TestClient:
        return TestClient(self.guard, base_url=BASE, raise_server_exceptions=False)

    def as_(self, name: str) -> TestClient:
        client = self.stranger()
        client.cookies.set(self.access.cookie_name, self.access.cookie(self.access.person(name)))
        client.headers |= {"origin": BASE, "sec-fetch-site": "same-origin", "x-opcal-annotator": quote(name)}
        return client


def pool_with(payload=None, ids=None, classes=None, columns=None, n=60):
    from conftest import make_case

    case = make_case(n=60)
    z, h = case.pool.features[:n], case.pool.logits[:n]
    return Pool.from_arrays(z, h, payload=payload, ids=ids, classes=classes, columns=columns)


@contextmanager
def served(folder, pool=None, **settings):
    pool = pool_with([f"case {i}" for i in range(60)]) if pool is None else pool
    with Session.start(pool, folder, **{"budget": 30} | settings) as session:
        session.background = False
        yield Site(session)
