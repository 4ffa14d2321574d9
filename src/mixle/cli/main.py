"""Arguments of the command ``mixle``, and how its errors reach the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mixle import __version__
from mixle.cli import demo_command, doctor_command, plan_command, report_command, table_commands, trace_command
from mixle.cli.screen import Screen
from mixle.errors import MixleError

__all__ = ["main", "parse"]

#: Each has ``add(commands)``, which adds its parsers and sets ``parser`` and ``run(read, out, err)`` as its defaults.
COMMANDS = (table_commands, demo_command, plan_command, report_command, trace_command, doctor_command)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the command's name, those of the process by default.

    Returns
    -------
    argparse.Namespace
        The words of the command, with ``run``, which carries it out.

    Examples
    --------
    >>> parse(["demo", "--data", "penguins", "--workers", "2"]).workers
    2
    """
    parser = argparse.ArgumentParser(
        prog="mixle", description="Mixtures, hidden Markov models and records of mixed types, fitted by EM."
    )
    parser.add_argument("--version", action="version", version=f"mixle {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    read, unknown = parser.parse_known_args(arguments)
    if unknown:
        read.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the command's name, those of the process by default.

    Returns
    -------
    int
        Exit code: 0, or 1 if the two fits differ, 2 for a problem with the request, 130 if interrupted, 141 if the
        reader of the output went away.
    """
    out, err = Screen(sys.stdout), Screen(sys.stderr)
    try:
        try:
            read = parse(arguments)
            return int(read.run(read, out, err))
        except SystemExit:
            out.flush()  # --help is printed by argparse
            raise
    except MixleError as error:
        err.note(f"mixle: {error}")
        return 2
    except KeyboardInterrupt:
        err.note("mixle: interrupted")
        return 130
    except OSError as error:
        if error is not out.lost:
            if error.filename is None:
                raise
            err.note(f"mixle: {error.filename}: {error.strerror}")
            return 2
        out.abandon()
        if isinstance(error, BrokenPipeError):
            return 141
        err.note(f"mixle: the output cannot be written: {error.strerror}")
        return 2
