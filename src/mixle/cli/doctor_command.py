"""Arguments of ``mixle doctor`` and ``mixle backends``."""

from __future__ import annotations

import argparse
from typing import Any

from mixle.cli.screen import Screen

__all__ = ["add"]


def add(commands: Any) -> argparse.ArgumentParser:
    """Add both commands to the subparsers `commands`, and return the parser of the first."""
    does = "try each backend on tiny data, compare its bits with those of one thread, and print what to mend"
    doctor: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help=does,
        description=f"{does.capitalize()}.",
        epilog="exit code: 0 if no backend that is installed fails, 1 if one does",
    )
    doctor.add_argument("backend", nargs="*", help="backends to look at (default: all)")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--no-trip", action="store_true", help="only look at packages and programs, start nothing")
    doctor.set_defaults(run=_doctor, parser=doctor)
    lists = "list the backends by name, and what those that are not usable need"
    backends: argparse.ArgumentParser = commands.add_parser(
        "backends", help=lists, description=f"{lists.capitalize()}."
    )
    backends.add_argument("--json", action="store_true", help="print JSON")
    backends.set_defaults(run=_backends, parser=backends)
    return doctor


def _doctor(read: argparse.Namespace, out: Screen, err: Screen) -> int:
    from difflib import get_close_matches

    from mixle.cli.doctor import check
    from mixle.utils.parallel.folding.backends import NEEDS
    from mixle.utils.parallel.planner import available_encoded_data_backends

    known = sorted({*available_encoded_data_backends(), *NEEDS})
    wanted = [name.strip().lower() for name in read.backend]
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}" if near else ""
            read.parser.error(f"there is no backend {name!r}{meant}; choose from {', '.join(known)}")
    found = []
    for name in wanted or sorted({*known} - {"multiprocessing"}):
        err.show(f"looking at {name} ...")
        found.append(check(name, trip=not read.no_trip))
    err.show("")
    if read.json:
        import json

        out.say(json.dumps([one.as_dict() for one in found], indent=2))
    else:
        wide = max(len(one.backend) for one in found)
        for one in found:
            what = " ".join(filter(None, (one.package, one.version)))
            took = "" if one.seconds is None else f"{one.seconds:.1f} s"
            words = {"ok": f"same bits as local, {took}"}.get(one.status, one.problem or one.status)
            out.say(f"{one.backend:{wide}} {one.status:10} {what:20} {words}")
            if one.fix:
                out.say(f"{'':{wide}} {'':10} {'':20} fix: {one.fix}")
    return int(any(one.status == "failed" for one in found))


def _backends(read: argparse.Namespace, out: Screen, _err: Screen) -> int:
    from mixle.cli.doctor import listing

    if read.json:
        import json

        rows = [{"backend": name, "usable": not fix, "state": state, "fix": fix} for name, state, fix in listing()]
        out.say(json.dumps(rows, indent=2))
        return 0
    found = listing()
    wide = max(len(name) for name, _, _ in found)
    for name, state, fix in found:
        out.say(f"{name:{wide}} {state}" + (f"; {fix}" if fix else ""))
    return 0
