"""Tasks on any executor of `concurrent.futures`: threads, processes, loky, mpi4py.futures.

An executor does not say which of its processes runs a call, so rows cannot be sent to where they will be wanted. Each
process keeps the shards that it has encoded and reads what it lacks from private files of the driver; a process that
cannot see these (on another machine) is sent the rows with the call. A round's task lies in such a file too, so that a
call carries a few words. Threads of the driver's own process share its memory, and no file is written.
"""

from mixle.utils.parallel.transports.futures.handle import FuturesEncodedData
from mixle.utils.parallel.transports.futures.transport import FuturesTransport

__all__ = ["FuturesEncodedData", "FuturesTransport"]
