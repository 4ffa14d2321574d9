"""Arguments of the command ``mixle``, and how its errors reach the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from mixle import __version__
from mixle.cli.demo import SHARDS, Options, run
from mixle.cli.screen import Screen
from mixle.errors import MixleError

__all__ = ["main", "parse"]

_ENDS = """exit code: 0 if the fits have the same bits, 1 if they differ, 2 if the request cannot be carried out,
130 after Ctrl-C, 141 if the reader of the output went away"""


def _count(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type that reads an integer of at least `least` and at most `most`."""

    def read(text: str) -> int:
        try:
            value = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: {least} or more")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is too large: {most} or less")
        return value

    return read


def _parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser of the command and that of ``mixle demo``."""
    parser = argparse.ArgumentParser(
        prog="mixle", description="Mixtures, hidden Markov models and records of mixed types, fitted by EM."
    )
    parser.add_argument("--version", action="version", version=f"mixle {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="demo")
    does = "fit a mixture to real data on a pool of processes, then on one core, and compare the bits"
    demo = commands.add_parser("demo", help=does, description=f"{does.capitalize()}.", epilog=_ENDS)
    demo.add_argument("--data", choices=("flights", "penguins"), default="flights", help="table (default: flights)")
    demo.add_argument("--rows", type=_count(1), help="use this many rows, spread over the table (default: all)")
    demo.add_argument("--components", type=_count(1), help="clusters (default: 8 for flights, 3 for penguins)")
    demo.add_argument(
        "--workers",
        type=_count(1),
        help=f"processes of the pool, {SHARDS} at most (default: one per usable core, up to 8)",
    )
    demo.add_argument("--iterations", type=_count(1), default=100, help="most EM iterations (default: 100)")
    demo.add_argument(
        "--seed", type=_count(0, 2**32 - 1), default=1, help="seed of the start, 0 to 2**32 - 1 (default: 1)"
    )
    demo.add_argument(
        "--backend",
        type=lambda text: text.strip().lower(),
        default="mp",
        help="where the first fit runs (default: mp); the second runs on one core. 'local': one fit, on one core",
    )
    return parser, demo


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the command's name, those of the process by default.

    Returns
    -------
    Options
        What the demo is asked to do.

    Examples
    --------
    >>> parse(["demo", "--data", "penguins", "--workers", "2"]).components
    3
    """
    parser, demo = _parsers()
    read, unknown = parser.parse_known_args(arguments)
    if unknown:
        demo.error(f"unrecognized arguments: {' '.join(unknown)}")
    if read.backend == "local" and read.workers is not None:
        demo.error("--backend local fits in this process: leave out --workers, or use --backend mp")
    components = read.components or {"flights": 8, "penguins": 3}[read.data]
    return Options(read.data, read.rows, components, read.workers, read.iterations, read.seed, read.backend)


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
            return run(parse(arguments), out, err)
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
            raise
        out.abandon()
        if isinstance(error, BrokenPipeError):
            return 141
        err.note(f"mixle: the output cannot be written: {error.strerror}")
        return 2
