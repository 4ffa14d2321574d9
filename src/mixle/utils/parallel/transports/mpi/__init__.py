"""Shards on the ranks of an MPI world: every rank runs the same handle and the same policies."""

from mixle.utils.parallel.transports.mpi.club import Club, open_club, world
from mixle.utils.parallel.transports.mpi.rows import RankFiles, RankRows, read_rows
from mixle.utils.parallel.transports.mpi.transport import MPITransport

__all__ = ["Club", "MPITransport", "RankFiles", "RankRows", "open_club", "read_rows", "world"]
