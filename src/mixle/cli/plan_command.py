"""Arguments of ``mixle plan``, and what it prints."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mixle.cli.screen import Screen
from mixle.cli.table_commands import add_family, schema_told
from mixle.cli.words import count

if TYPE_CHECKING:
    from mixle.utils.parallel.planning.placement import Placement

__all__ = ["add", "placement_of"]

#: Rows of a table that are encoded to see how large one is.
PROBE = 4096
_ENDS = """examples:
  mixle plan flights.parquet --components 8
  mixle plan --rows 1e9 --row-bytes 80 --workers 4 --memory 64G
  mixle plan --rows 2e7 --row-bytes 32 --components 16 --speeds 1,1,2

exit code: 0 if the rows fit (or no memory is known), 1 if they do not, 2 if the request cannot be carried out"""


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the subparsers `commands`, and return its parser."""
    does = "say how rows should be spread over workers, and whether they fit"
    parser: argparse.ArgumentParser = commands.add_parser(
        "plan",
        help=does,
        description=f"{does.capitalize()}. Nothing is started; of a table the first rows are looked at.",
        epilog=_ENDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", nargs="?", help="CSV or Parquet file that is to be fitted; or say --rows, --row-bytes")
    parser.add_argument("--rows", type=whole, help="number of rows, e.g. 1e9 (default: those of the table)")
    parser.add_argument(
        "--row-bytes",
        type=size,
        help="bytes of an encoded row, e.g. 64: 8 per number (default: those of the table's first rows as encoded)",
    )
    parser.add_argument("--workers", type=count(1), help="machines or processes (default: one per usable core)")
    parser.add_argument(
        "--memory", type=size, help="memory of each, e.g. 16G (default: an equal part of this machine's)"
    )
    parser.add_argument("--speeds", type=speeds, help="relative speeds of the workers, e.g. 1,1,2 (default: all equal)")
    parser.add_argument("--components", type=count(1), default=1, help="components of the mixture (default: 1)")
    add_family(parser)
    parser.add_argument("--sub-chunks", type=count(1), default=1, help="encoded pieces per shard (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the placement as JSON")
    parser.set_defaults(run=_run, parser=parser)
    return parser


def whole(text: str) -> int:
    """Read a whole number, also such as ``1e9``.

    Examples
    --------
    >>> whole("1e9"), whole("12,000")
    (1000000000, 12000)
    """
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 1 <= value < 1e18 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(value)


def size(text: str) -> int:
    """Read a number of bytes, also such as ``16G`` or ``512Mi``.

    Examples
    --------
    >>> size("16G"), size("1Ki")
    (16000000000, 1024)
    """
    from mixle.utils.parallel.planning.limits import quantity

    value = quantity(text)
    if value is None or value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 64, 16G or 512Mi")
    return int(value)


def speeds(text: str) -> list[float]:
    """Read relative speeds.

    Examples
    --------
    >>> speeds("1,1,2.5")
    [1.0, 1.0, 2.5]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no speeds: write numbers such as 1,1,2") from None
    if not all(0.0 < speed < float("inf") for speed in found):
        raise argparse.ArgumentTypeError(f"{text!r}: speeds must be above 0")
    return found


def placement_of(read: argparse.Namespace) -> Placement:
    """Return the placement that is asked for; words that exclude each other end the program with usage."""
    from mixle.utils.parallel.planning.devices import DeviceSpec, Resources
    from mixle.utils.parallel.planning.discover import usable_cpus
    from mixle.utils.parallel.planning.plan import plan

    workers = read.workers or (usable_cpus() if read.speeds is None else len(read.speeds))
    if read.speeds is not None and len(read.speeds) != workers:
        read.parser.error(f"--speeds has {len(read.speeds)} numbers for {workers} workers")
    memory = read.memory
    if memory is None:
        memory = Resources.discover(include_torch=False, cpu_workers=workers).devices[0].memory_bytes
    fast = read.speeds or [1.0] * workers
    devices = (DeviceSpec(f"worker:{i}", memory_bytes=memory, throughput=speed) for i, speed in enumerate(fast))

    class Model:
        num_components = read.components

    rows, row_bytes = _measured(read)
    return plan(
        model=Model(),
        resources=Resources(tuple(devices)),
        sub_chunks=read.sub_chunks,
        total_rows=rows,
        encoded_row_bytes=row_bytes,
    )


def _measured(read: argparse.Namespace) -> tuple[int, float]:
    """Return the number of rows and the bytes of an encoded one, as told or as the table has them."""
    if read.table is None:
        if read.rows is None or read.row_bytes is None:
            read.parser.error("name a TABLE, or tell both --rows and --row-bytes")
        return int(read.rows), float(read.row_bytes)
    from mixle.tables.files import count_rows, read_file

    rows = count_rows(read.table) if read.rows is None else int(read.rows)
    if read.row_bytes is not None:
        return rows, float(read.row_bytes)
    head = read_file(read.table, PROBE)
    families = schema_told(head, dict(read.family))
    table = families.read(head)
    encoder = families.estimator(read.components).accumulator_factory().make().acc_to_encoder()
    return rows, encoder.nbytes(encoder.seq_encode(table)) / len(table)


def _run(read: argparse.Namespace, out: Screen, _: Screen) -> int:
    placement = placement_of(read)
    if read.json:
        out.say(placement.to_json(indent=2))
    else:
        out.say(placement.table())
        if placement.fits is not False:
            workers = len(placement.by_device())
            out.say("", "With as many processes on this machine, and shards enough to balance them:")
            if read.table is None:
                shards = f"num_workers={workers}, num_shards={16 * workers}"
                out.say(f'  encoded_data(rows, estimator, backend="mp", {shards})')
            else:
                import shlex

                words = ["mixle", "fit", read.table, "--components", str(read.components)]
                words += [word for column, family in read.family for word in ("--family", f"{column}={family}")]
                out.say(f"  {shlex.join(words)} --backend mp --workers {workers}")
    return 1 if placement.fits is False else 0
