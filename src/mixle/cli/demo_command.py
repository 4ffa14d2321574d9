"""Arguments of ``mixle demo``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mixle.cli.demo import SHARDS, Options, run
from mixle.cli.incidents import INCIDENTS
from mixle.cli.screen import Screen
from mixle.cli.words import count

__all__ = ["add", "options_of"]

_ENDS = """exit code: 0 if the fits have the same bits, 1 if they differ, 2 if the request cannot be carried out,
130 after Ctrl-C, 141 if the reader of the output went away"""


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the subparsers `commands`, and return its parser."""
    does = "fit a mixture to real data on a pool of processes, then on one core, and compare the bits"
    demo: argparse.ArgumentParser = commands.add_parser(
        "demo", help=does, description=f"{does.capitalize()}.", epilog=_ENDS
    )
    demo.add_argument("--data", choices=("flights", "penguins"), default="flights", help="table (default: flights)")
    demo.add_argument("--rows", type=count(1), help="use this many rows, spread over the table (default: all)")
    demo.add_argument("--components", type=count(1), help="clusters (default: 8 for flights, 3 for penguins)")
    demo.add_argument(
        "--workers",
        type=count(1),
        help=f"processes of the pool, {SHARDS} at most (default: one per usable core, up to 8)",
    )
    demo.add_argument("--iterations", type=count(1), default=100, help="most EM iterations (default: 100)")
    demo.add_argument(
        "--seed", type=count(0, 2**32 - 1), default=1, help="seed of the start, 0 to 2**32 - 1 (default: 1)"
    )
    demo.add_argument(
        "--backend",
        type=lambda text: text.strip().lower(),
        default="mp",
        help="where the first fit runs (default: mp); the second runs on one core. 'local': one fit, on one core",
    )
    demo.add_argument(
        "--report",
        type=Path,
        metavar="PAGE",
        help="new file for the page that shows where the first fit's time went (default: a temporary file)",
    )
    incidents = demo.add_mutually_exclusive_group()
    incidents.add_argument(
        "--kill",
        dest="incident",
        action="store_const",
        const="kill",
        help="kill a worker in the middle of the fit, and tell what happened",
    )
    incidents.add_argument(
        "--flip",
        dest="incident",
        action="store_const",
        const="flip",
        help="flip a bit of a worker's numbers in the middle of the fit, and tell how it was found",
    )
    demo.set_defaults(run=_run, parser=demo)
    return demo


def options_of(read: argparse.Namespace) -> Options:
    """Return what the demo is asked to do; words that exclude each other end the program with usage."""
    if read.backend == "local" and read.workers is not None:
        read.parser.error("--backend local fits in this process: leave out --workers, or use --backend mp")
    if read.incident is not None:
        least = INCIDENTS[read.incident].least_iterations
        if read.backend != "mp":
            read.parser.error(f"--{read.incident} happens to a pool of processes: leave out --backend {read.backend}")
        if read.iterations < least:
            read.parser.error(f"--{read.incident} happens in the middle of a fit: give --iterations {least} or more")
    components = read.components or {"flights": 8, "penguins": 3}[read.data]
    return Options(
        read.data,
        read.rows,
        components,
        read.workers,
        read.iterations,
        read.seed,
        read.backend,
        read.incident,
        read.report,
    )


def _run(read: argparse.Namespace, out: Screen, err: Screen) -> int:
    return run(options_of(read), out, err)
