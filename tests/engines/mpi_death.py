"""Run by ``mpiexec -n 2 python mpi_death.py HOW FOLDER``: rank 1 goes in the middle of a fit."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from mpi4py import MPI

import mixle.stats as st
from mixle.utils.parallel.mpi import MPIEncodedData

RANK = MPI.COMM_WORLD.rank


class Doomed(st.GaussianEstimator):
    """Its accumulator is made on every rank, in the middle of a round."""

    def accumulator_factory(self):
        if RANK == 1 and HOW == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if RANK == 1 and HOW == "exit":
            os._exit(3)
        return super().accumulator_factory()


def segments():
    """Return the paths of the shared memory of this rank, which a killed one cannot remove."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return sorted({line.split()[5] for line in lines if "/dev/shm/mpich_shm_" in line and len(line.split()) == 6})


HOW = sys.argv[1]
Path(sys.argv[2], f"segments{RANK}").write_text("\n".join(segments()))
handle = MPIEncodedData([1.0, 2.0, 3.0, 4.0], st.GaussianEstimator(), num_shards=2)
handle.pysp_seq_estimate(st.GaussianEstimator(), None)
if RANK == 1 and HOW == "uncaught":
    raise ValueError("a line of the user's script")
if RANK == 1 and HOW == "elsewhere":
    raise ValueError("while the others wait in a call that is not ours")
if RANK == 0 and HOW == "elsewhere":
    MPI.COMM_WORLD.recv(source=1)
handle.pysp_seq_estimate(Doomed(), None)
print("rank", RANK, "went on")
