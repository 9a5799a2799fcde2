"""A real chromium, as Debian ships it; pages must neither fetch anything nor complain."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
LOOKS = {
    "wide": {"viewport": {"width": 1440, "height": 900}},
    "phone": {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2, "is_mobile": True},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
}


@pytest.fixture(scope="session")
def chromium():
    api = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not on the PATH")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(params=sorted(LOOKS))
def look(request):
    """The page's width, density and colours."""
    return request.param


@pytest.fixture
def opened(chromium, look):
    """A page in this look; what it fetched and what it complained about are in `.fetched` and `.complaints`."""
    context = chromium.new_context(**LOOKS[look])
    page = context.new_page()
    page.fetched, page.complaints = [], []
    page.on("request", lambda r: page.fetched.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: page.complaints.append(str(e)))
    yield page
    context.close()


@pytest.fixture
def shots(tmp_path):
    """Where screenshots go: OPCAL_SHOTS, or a folder that is thrown away."""
    folder = Path(os.environ.get("OPCAL_SHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
