"""Run by ``mpiexec -n 2 python mpi_death.py HOW``: rank 1 goes in the middle of a fit."""

from __future__ import annotations

import os
import signal
import sys

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


HOW = sys.argv[1]
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
