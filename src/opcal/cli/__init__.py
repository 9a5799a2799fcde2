"""The command line: thin over the library, one file for each group of commands."""

from opcal.cli.main import main

__all__ = ["main"]
