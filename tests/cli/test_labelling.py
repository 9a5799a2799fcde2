"""`opcal label` as it is typed: what it prints, what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import make_case

from opcal.cli import main
from opcal.session import Session


@pytest.fixture
def ward(tmp_path):
    Session.start(make_case(n=40).pool, tmp_path / "ward", budget=8).close()
    return tmp_path / "ward"


def run(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_help_shows_an_example():
    told = run("label", "--help")
    assert told.exit_code == 0
    assert "opcal label ward3" in told.output
    assert "--label" in run("demo", "--help").output


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--host", "0.0.0.0"], 1, "--name"),
        (["--annotator", "  "], 1, "name of an annotator"),
        (["--tls-cert", __file__], 2, "go together"),
        (["--media", "nowhere"], 2, "does not exist"),
        (["--port", "99999"], 2, "range"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(ward, words, code, told):
    found = run("label", ward, "--no-browser", *words)
    assert (found.exit_code, told in found.output) == (code, True), found.output


def test_a_port_that_is_taken_is_named(ward):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = run("label", ward, "--no-browser", "--port", taken.getsockname()[1])
    assert found.exit_code == 1
    assert "--port" in found.output


def test_links_are_ready_when_they_are_printed_and_the_same_after_a_restart(ward):
    command = [str(Path(sys.executable).parent / "opcal"), "label", str(ward), "--json", "--owner", "ann"]
    links = []
    for _ in range(2):
        with subprocess.Popen([*command, "--annotator", "bob"], stdout=subprocess.PIPE, text=True) as server:
            told = json.loads(server.stdout.readline())
            for name in ("ann", "bob"):
                with urllib.request.urlopen(told["links"][name], timeout=60) as page:
                    assert page.status == 200
            server.send_signal(signal.SIGINT)
            assert server.wait(60) in (0, 130, -signal.SIGINT)
        links.append(told["links"])
    assert links[0] == links[1]
