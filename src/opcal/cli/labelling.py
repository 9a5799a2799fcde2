"""`opcal label`: the labelling page."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from opcal.cli.progress import working
from opcal.cli.sessions import login, session
from opcal.session import Session

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("label")
@session
@click.option(
    "--owner", default=login, help="Your name: the owner of the session. [default: $OPCAL_ANNOTATOR or login]"
)
@click.option("--annotator", "annotators", multiple=True, help="Somebody who labels too, with a link of their own.")
@click.option("--arbiter", "arbiters", multiple=True, help="Somebody who also decides disagreements.")
@click.option("--media", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Folder of the images.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option("--port", type=click.IntRange(1, 65535), help="[default: the one of last time, else 8765 or a free one]")
@click.option(
    "--name", "names", multiple=True, help="Under which people reach it: ward3.example.org:8765, or https://…"
)
@click.option("--tls-cert", type=FILE, help="Certificate (PEM), to serve https.")
@click.option("--tls-key", type=FILE, help="Its private key.")
@click.option("--no-browser", is_flag=True, help="Print the links and open nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the links as JSON, one line, when it is ready.")
def command(session: str, **options: Any) -> None:
    """The labelling page, for one person or a team. Stop it with Ctrl-C: every answer is stored as it is given.

    Each person has a link of their own; whoever has it labels in their name, so send it to them alone. The links stay
    the same when you stop and start again. Only this machine reaches the page, unless you say otherwise.

    \b
    Example:  opcal label ward3
              opcal label ward3 --annotator ann --annotator bob --media scans/
              opcal label ward3 --host 0.0.0.0 --name ward3.example.org:8765 --tls-cert c.pem --tls-key k.pem
    """
    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    options["browser"] = not options.pop("no_browser")
    with working("opening the session"):
        found = Session.open(session)
    serve(found, **options)


def serve(
    session: Session,
    *,
    owner: str | None = None,
    annotators: tuple[str, ...] = (),
    arbiters: tuple[str, ...] = (),
    media: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    names: tuple[str, ...] = (),
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    browser: bool = True,
    as_json: bool = False,
) -> None:
    """Until Ctrl-C."""
    from opcal.web.labelling.server import Address, Server

    with session:
        made = Server(session, Address(host, port, names, tls_cert, tls_key), media)
        owner = owner or login()
        for name, role in [
            (owner, "owner"),
            *((n, "arbiter") for n in arbiters),
            *((n, "annotator") for n in annotators),
        ]:
            made.access.add(name, role)
        links = {person.name: made.link(person.name) for person in made.access.people}
        _tell(links, owner.strip(), made.base, as_json)
        if browser and not as_json:
            _open(links[owner.strip()])
        made.run()
    if not as_json:
        click.echo("Stopped. Every answer is stored.", err=True)


def _tell(links: dict[str, str], owner: str, base: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"base": base, "owner": owner, "links": links}))
        sys.stdout.flush()
        return
    click.echo(f"Label here:  {links[owner]}")
    for name, link in links.items():
        if name != owner:
            click.echo(f"  for {name}:  {link}")
    if base.startswith("http://") and "://127." not in base and "://localhost" not in base:
        click.echo("Careful: without TLS others on the network can read the links (--tls-cert, or a proxy).", err=True)
    click.echo("Ctrl-C stops; start again with the same command, the links stay.", err=True)
    sys.stdout.flush()


def _open(link: str) -> None:
    """Only where somebody sits at this machine."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(link)
