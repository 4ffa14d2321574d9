"""``mixle trace``: the rounds of a fit as a trace for Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mixle.cli.runs import add_source, save, told_run
from mixle.cli.screen import Screen, counted
from mixle.errors import RecordsError

__all__ = ["add"]

_ENDS = """examples:
  mixle trace run.jsonl                       writes run.trace.json
  mixle trace run.jsonl --out -               to standard output

Open the file in ui.perfetto.dev (it stays in the browser) or chrome://tracing: one row per rank, one block per phase.

exit code: 0, or 2 if there is nothing to draw: no such file, no records in it, several runs and no --run"""


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the subparsers `commands`, and return its parser."""
    does = "turn the telemetry of a fit into a trace that opens in Perfetto"
    parser: argparse.ArgumentParser = commands.add_parser(
        "trace",
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=_ENDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source(parser)
    parser.add_argument(
        "--out",
        metavar="TRACE",
        help="file to write, '-' for standard output (default: FILE's name with .trace.json, here, if new)",
    )
    parser.set_defaults(run=_run, parser=parser)
    return parser


def _run(read: argparse.Namespace, out: Screen, err: Screen) -> int:
    import json

    from mixle.utils.parallel.observing.trace import chrome_trace

    run = told_run(read, err)
    text = json.dumps(chrome_trace(run.records, run.name or "fit"), allow_nan=False)
    if read.out == "-":
        out.say(text)
        return 0
    path = Path(f"{Path(read.file).stem}.trace.json") if read.out is None else Path(read.out)
    if read.out is None and path.exists():
        raise RecordsError(f"{path} exists: name the file to write with --out")
    save(path, text, read.file)
    out.say(f"{counted(len(run.records), 'records')}: the trace is in {path}. Open it in ui.perfetto.dev")
    return 0
