"""`opcal serve`."""

from __future__ import annotations

from pathlib import Path

import click

from opcal.cli.production import FILE, artifact, trusted
from opcal.cli.sessions import session


@click.command("serve")
@artifact
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need tokens.")
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--tokens", type=FILE, help="File with bearer tokens, one a line; or $OPCAL_TOKENS, by commas.")
@click.option("--name", "names", multiple=True, help="A host name under which clients reach it.")
@click.option("--certificate", type=FILE, help="PEM file, to serve https; with --key.")
@click.option("--key", type=FILE, help="PEM file of the certificate's key.")
@trusted
def command(
    artifact: Path,
    host: str,
    port: int,
    tokens: Path | None,
    names: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    trusted: Path | None,
) -> None:
    """Serve calibrated confidence over HTTP: /score, /decide, /health, /ready, /metrics, /openapi.json.

    The artefact is read again when its file is replaced. SIGTERM stops after the requests under way.

    \b
    Example:  opcal serve ward3.opcal --port 8080
              curl -s localhost:8080/score -d '{"features": [0.1, 2.0], "logits": [1.5, -0.3]}'
    """
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key go together")
    from opcal.web.serving.server import serve

    tls = None if certificate is None or key is None else (certificate, key)
    click.echo(f"opcal serves {artifact} on http{'s' if tls else ''}://{host}:{port}", err=True)
    serve(artifact, host=host, port=port, tokens=tokens, trusted=trusted, names=names, tls=tls)


@click.command("label-studio")
@session
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --secret-file.")
@click.option("--port", type=click.IntRange(1, 65535), default=9090, show_default=True)
@click.option("--name", "names", multiple=True, help="A host name under which Label Studio reaches it.")
@click.option("--secret-file", type=FILE, help="File with a secret: the URL is then http://HOST:PORT/SECRET.")
def label_studio(session: str, host: str, port: int, names: tuple[str, ...], secret_file: Path | None) -> None:
    """Label Studio's ML backend over a session: predictions and order there, annotations back here.

    In Label Studio, add the URL under Settings, Model; the webhook, URL/webhook, it makes itself. Tasks name their item
    in data.item, as `opcal ask --label-studio` writes them; the labelling interface is <Choices name="label"
    toName="item"> over the classes.

    \b
    Example:  opcal label-studio ward3 --port 9090
    """
    from opcal.web.serving.server import serve_label_studio

    secret = None if secret_file is None else secret_file.read_text(encoding="utf-8").strip()
    click.echo(f"opcal waits for Label Studio on http://{host}:{port}{'/SECRET' if secret else ''}", err=True)
    serve_label_studio(session, host=host, port=port, names=names, secret=secret)
