"""The supervised pool of worker processes: one launcher, forked workers, rows in shared memory.

`transport` has the verbs, `exchange` is one task under way, `holdings` what must be given back. In the driver,
`supervisor` matches requests and replies over `crew`, the state machine of
all workers (`member`: one; `life`: slow or dead; `link`: their launcher; `view`: what hooks see). `launcher` and
`worker` run in the child processes, `spawning` stands in where nothing can be forked. `wire`, `parcels`, `spool` and
`mailbox` are how they talk; `system` is what differs between platforms.
"""

from mixle.utils.parallel.transports.process.transport import ProcessTransport
from mixle.utils.parallel.transports.process.view import WorkerProcess

__all__ = ["ProcessTransport", "WorkerProcess"]
