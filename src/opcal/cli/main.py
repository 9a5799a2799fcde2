"""`opcal`: the group of commands, and how errors are told."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

import opcal
from opcal.errors import OpcalError

COMMANDS = {
    "demo": "opcal.cli.demo",
    "import": "opcal.cli.importing",
    "extract": "opcal.cli.extracting",
    "start": "opcal.cli.sessions:start",
    "label": "opcal.cli.labelling",
    "ask": "opcal.cli.sessions:ask",
    "tell": "opcal.cli.sessions:tell",
    "undo": "opcal.cli.sessions:undo",
    "status": "opcal.cli.sessions:status",
    "assess": "opcal.cli.assessing",
    "certify": "opcal.cli.certifying",
    "report": "opcal.cli.reporting",
    "export-labels": "opcal.cli.labels:export_labels",
    "import-labels": "opcal.cli.labels:import_labels",
    "resolve": "opcal.cli.upkeep:resolve",
    "add-items": "opcal.cli.upkeep:add_items",
    "forget": "opcal.cli.upkeep:forget",
    "backup": "opcal.cli.upkeep:backup",
    "export": "opcal.cli.production:export",
    "inspect": "opcal.cli.production:inspect",
    "score": "opcal.cli.production:score",
    "serve": "opcal.cli.serving",
    "watch": "opcal.cli.watching",
    "label-studio": "opcal.cli.serving:label_studio",
    "paper": "opcal.experiments.command",
    "doctor": "opcal.cli.doctor",
}
"""Module of each command, and its name there where it is not `command`."""


class Commands(click.Group):
    """Commands are imported when they are run, so that `opcal --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name or "command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (OpcalError, OSError) as error:
            click.echo(f"opcal: {_told(error)}", err=True)
            sys.exit(1)


def _told(error: Exception) -> str:
    if isinstance(error, OpcalError):
        return str(error)
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(opcal.__version__, prog_name="opcal")
def main() -> None:
    """Operational calibration: honest confidence for a classifier in the field where you use it.

    \b
    Begin with:   opcal demo
    Exit codes:   0 done, 1 refused or failed (the message says what to do), 2 wrong usage
    """
