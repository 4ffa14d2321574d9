"""The library prints nothing unless asked, and loads no `logging` of its own accord."""

import ast
import subprocess
import sys

import pytest
from source_tree import FILES, module_of, tree_of

#: What prints because it is asked to: the command line, and the lines and updates of a fit.
PRINTERS = ("mixle.cli", "mixle.inference.progress", "mixle.inference.sinks")
#: Passes on what the user's own code printed on a worker; says why it ends a whole MPI job, which nobody could else.
LAST_RESORTS = ("mixle.utils.parallel.transports.process.member", "mixle.utils.parallel.transports.mpi.club")
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
IDS = [module_of(path) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_nothing_is_printed(path):
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    prints = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    writes = [
        node.lineno
        for node in calls
        if isinstance(node.func, ast.Attribute)
        and node.func.attr in {"write", "writelines"}
        and ast.unparse(node.func.value) in STREAMS
    ]
    module = module_of(path)
    assert module.startswith(PRINTERS) or not prints
    assert module.startswith((*PRINTERS, *LAST_RESORTS)) or not writes


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_logging_is_reached_in_one_place(path):
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    assert module_of(path) == "mixle._log" or "logging" not in names


FIT = """
import warnings
warnings.simplefilter("ignore")
from mixle.inference import best_of, optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.telemetry import Telemetry
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry

rows, mixture = [float(i * i % 97) for i in range(600)], MixtureEstimator([GaussianEstimator()] * 2)
optimize(rows, mixture, max_its=3)
best_of(rows, None, mixture, 2, 3, 0.5, 1e-9)
policies = [Retry(2), Audit(0.5)]
with encoded_data(rows, mixture, backend="mp", num_workers=2, policies=policies, telemetry=Telemetry()) as handle:
    next(iter(handle.transport.processes().values())).kill()
    optimize(None, mixture, enc_data=handle, max_its=3)
    handle.report().diagnose()
"""


@pytest.mark.parametrize("lead", ["", "import logging"])
def test_a_fit_prints_nothing(lead):
    """A worker is killed on the way; with `logging` loaded and no handler, its last resort stays silent too."""
    done = subprocess.run([sys.executable, "-c", lead + FIT], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
