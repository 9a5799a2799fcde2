"""A real server process and real browsers for the tests of the labelling page."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from opcal.session import Session

ROOT = Path(__file__).parent.parent.parent
ARTEFACTS = Path(os.environ.get("OPCAL_ARTEFACTS", ROOT / "artefacts" / "browser"))
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE = 60_000
"""Milliseconds: the machine may be busy."""


class Server:
    """`opcal label` on a session; may be killed and started again."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder, self.more = folder, more
        self.start()

    def start(self) -> None:
        opcal = str(Path(sys.executable).parent / "opcal")
        command = [opcal, "label", str(self.folder), "--json", "--owner", "ann", "--annotator", "bob", *self.more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        about = json.loads(self.process.stdout.readline())
        self.base, self.links = about["base"], about["links"]

    def kill(self) -> None:
        """As a power cut does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def answers(self) -> list[dict]:
        with Session.open(self.folder) as session:
            return session.answers()

    def status(self):
        with Session.open(self.folder) as session:
            return session.status()


class Person:
    """Somebody with a browser of their own, signed in; problems on the page fail the test."""

    def __init__(self, browser, server: Server, name: str = "ann", **context) -> None:
        self.server, self.problems = server, []
        self.context = browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | context))
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))
        self.page.on("console", self._heard)
        self.page.goto(server.links[name])
        self.page.wait_for_url(server.base + "/")

    def _heard(self, message) -> None:
        network = "Failed to load resource" in message.text or "ERR_" in message.text
        if message.type == "error" and not network:
            self.problems.append(message.text)

    def ready(self) -> str:
        """The item on the page."""
        self.page.wait_for_selector(".answer button")
        return self.item

    @property
    def item(self) -> str:
        return self.page.evaluate("document.body.dataset.item")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def answer(self, key: str) -> str:
        """One key; gives the item that it answered, once another item or the end is shown."""
        item = self.ready()
        self.press(key)
        self.page.wait_for_function(
            "i => document.body.dataset.item !== i || document.querySelector('.rest')", arg=item
        )
        return item

    def saved(self) -> None:
        self.page.wait_for_selector("#sync[data-state=saved]")

    def waiting(self, count: int) -> None:
        self.page.wait_for_selector(f"#sync[data-state=waiting][data-waiting='{count}']")

    def shot(self, name: str, **options) -> None:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.png", **options)

    def well(self) -> None:
        assert self.problems == []


def axe(page) -> list[str]:
    """What axe-core finds serious or critical."""
    if not page.evaluate("Boolean(window.axe)"):
        script = (Path(os.environ["OPCAL_AXE"])).read_text(encoding="utf-8")
        page.evaluate(script)  # evaluated by the debugger: the page's own policy lets no foreign script in
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    bad = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    return [f"{v['id']}: {[n['html'][:120] for n in v['nodes']][:3]}" for v in bad]


def chromium(playwright):
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
