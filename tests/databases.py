"""Both databases for every test that asks for `db`."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def postgres():
    from servers import Postgres, binaries

    found = binaries()
    if found is None:
        pytest.skip("no initdb on the PATH nor under /usr/lib/postgresql: PostgreSQL is not tested here")
    server = Postgres(found)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request):
    """None for SQLite in the session's folder, else the URL of an empty PostgreSQL database."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres").database()
