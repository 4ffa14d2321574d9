"""Arguments of the command ``mixle``, and how its errors reach the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from mixle import __version__
from mixle.cli.demo import Options, run, usable_cores
from mixle.errors import MixleError

__all__ = ["main", "parse"]


def _count(least: int) -> Callable[[str], int]:
    """Return an argparse type that reads an integer of at least `least`."""

    def read(text: str) -> int:
        try:
            value = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: {least} or more")
        return value

    return read


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
    parser = argparse.ArgumentParser(prog="mixle", description="Mixtures and hidden Markov models by EM.")
    parser.add_argument("--version", action="version", version=f"mixle {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="demo")
    demo = commands.add_parser(
        "demo",
        help="fit a mixture to real data on a pool of processes, then on one core, and compare the bits",
    )
    demo.add_argument("--data", choices=("flights", "penguins"), default="flights", help="table (default: flights)")
    demo.add_argument("--rows", type=_count(1), help="use this many rows, spread over the table (default: all)")
    demo.add_argument("--components", type=_count(1), help="clusters (default: 8 for flights, 3 for penguins)")
    demo.add_argument(
        "--workers", type=_count(1), default=usable_cores(), help="processes of the pool (default: cores)"
    )
    demo.add_argument("--iterations", type=_count(1), default=100, help="most EM iterations (default: 100)")
    demo.add_argument("--seed", type=_count(0), default=1, help="seed of the start (default: 1)")
    demo.add_argument("--backend", default="mp", help="where the first fit runs (default: mp); the second: one core")
    read = parser.parse_args(arguments)
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
        Exit code: 0, or 1 if the two fits differ, 2 for a problem with the request, 130 if interrupted.
    """
    options = parse(arguments)
    try:
        return run(options)
    except MixleError as error:
        print(f"mixle: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mixle: interrupted", file=sys.stderr)
        return 130
