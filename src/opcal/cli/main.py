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
SHORT = {
    "demo": "The whole story on a real case, in under a minute.",
    "import": "Make a pool from a file: .npz, Parquet, Arrow, CSV.",
    "extract": "Make a pool from a model and field data.",
    "start": "Start a labelling session on a pool.",
    "label": "The labelling page, for one person or a team.",
    "ask": "The items to label next.",
    "tell": "Answers: ITEM=LABEL, or a file of them.",
    "undo": "Take back your newest answer, or the one with that id.",
    "status": "Where a session stands: asked, answered, open, by whom.",
    "assess": "How accurate the model is here, with an interval.",
    "certify": "The threshold with a guarantee.",
    "report": "One self-contained page with all figures and plots.",
    "export-labels": "All answers in force: CSV, JSONL, Parquet, Label Studio.",
    "import-labels": "Answers from such a file, all or nothing.",
    "resolve": "Items on which opinions are tied; decide as the arbiter.",
    "add-items": "Append the items of another pool of the same model.",
    "forget": "Erase payloads, own columns and notes of items.",
    "backup": "A copy of the session, made while people label.",
    "export": "Write what is needed to score: an .opcal file, ONNX.",
    "inspect": "What an artefact is, and how good.",
    "score": "Score a stored pool of any size.",
    "serve": "Serve calibrated confidence over HTTP.",
    "watch": "Compare a new pool with a session's: has it changed?",
    "label-studio": "Label Studio's ML backend over a session.",
    "paper": "The paper's tables and figures, rerun from raw data.",
    "doctor": "Versions, database settings, what is missing.",
}
"""What `opcal --help` says of each, without importing it."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SHORT[name]) for name in self.list_commands(ctx)])

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
