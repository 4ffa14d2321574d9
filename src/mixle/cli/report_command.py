"""``mixle report``: where the time of a fit went, and who was slow, from its telemetry."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mixle.cli.runs import Run, add_source, save, told_run
from mixle.cli.screen import Screen

__all__ = ["add"]

_ENDS = """examples:
  mixle report run.jsonl                      the report as text
  mixle report run.jsonl --html run.html      the page: one file, no network, light and dark
  mixle report run.jsonl --json | jq .diagnosis.slow_ranks

The file is what a fit writes that was given telemetry=Telemetry("run.jsonl"); it may still be growing.

exit code: 0, or 2 if there is nothing to report: no such file, no records in it, several runs and no --run"""


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the subparsers `commands`, and return its parser."""
    does = "show where the time of a fit went, and who was slow, from its telemetry"
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=_ENDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source(parser)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write the report as one offline page")
    parser.add_argument("--json", action="store_true", help="print the report and the verdict as JSON, for programs")
    parser.set_defaults(run=_run, parser=parser)
    return parser


def _run(read: argparse.Namespace, out: Screen, err: Screen) -> int:
    from mixle.cli.summary import summary
    from mixle.utils.parallel.observing.page import page

    run = told_run(read, err)
    if read.html is not None:
        save(read.html, page(run.records, _title(read.file, run)), read.file)
    if read.json:
        out.say(_json(run))
    elif read.html is not None:
        out.say(f"The page is in {read.html}")
    else:
        out.say(_title(read.file, run), *summary(run.records))
    return 0


def _title(file: str, run: Run) -> str:
    return f"Fit report: {Path(file).name}" + (f", run {run.name}" if run.name else "")


def _json(run: Run) -> str:
    import json

    from mixle.utils.parallel.observing.report import fit_report

    report = fit_report(run.records)
    told = {"run_id": run.name, "report": report.as_dict(), "diagnosis": report.diagnose().as_dict()}
    return json.dumps(told, indent=1, allow_nan=False)
