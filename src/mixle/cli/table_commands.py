"""``mixle fit``, ``mixle score`` and ``mixle sample``: a mixture of the rows of a table, from the command line."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import warnings
from datetime import datetime, timedelta
from typing import Any

from mixle.cli.page_file import refuse_place
from mixle.cli.screen import Screen, counted
from mixle.cli.words import count, counts
from mixle.errors import InterruptWarning, SchemaError

__all__ = ["add", "add_family", "schema_told"]

_ENDS = "exit code: 0, or 2 if the request cannot be carried out (the reason is on standard error), 130 after Ctrl-C"
_EXAMPLES = {
    "fit": "examples:\n  mixle fit penguins.csv --out penguins.json\n"
    "  mixle fit flights.parquet --components 8 --backend mp --workers 4 --out flights.json\n"
    "  mixle fit visits.csv --family age=Gamma --family id=Ignored --components 2-6 --out visits.json",
    "score": "examples:\n  mixle score penguins.json new.csv\n  mixle score penguins.json new.csv --rows > scored.csv",
    "sample": "example:\n  mixle sample penguins.json -n 10 --seed 1",
}


def add(commands: Any) -> None:
    """Add the commands to the subparsers `commands`."""
    fit = _parser(commands, "fit", "fit a mixture to a CSV or Parquet file", _fit)
    fit.add_argument("table", help="CSV (with a header line) or Parquet file")
    fit.add_argument(
        "--components",
        type=counts,
        default=list(range(1, 9)),
        help="clusters: a number, or several as 2-6, of which the least BIC is kept (default: 1-8)",
    )
    fit.add_argument("--out", help="write the fit to this JSON file, for 'mixle score', 'mixle sample' and mixle.load")
    add_family(fit)
    fit.add_argument("--backend", default="local", help="where the E-steps run (default: local); the bits are the same")
    fit.add_argument("--workers", type=count(1), help="workers of the backend")
    fit.add_argument(
        "--precision",
        choices=("float64", "float32"),
        default="float64",
        help="what E-steps compute in (default: float64); float32 takes less time, and has bits of its own",
    )
    fit.add_argument("--trials", type=count(1), default=3, help="starts; the best is kept (default: 3)")
    fit.add_argument("--iterations", type=count(1), default=200, help="most EM iterations of a start (default: 200)")
    fit.add_argument("--seed", type=count(0, 2**32 - 1), default=0, help="seed of the starts (default: 0)")
    score = _parser(commands, "score", "tell the cluster and the log-density of each row of a table", _score)
    score.add_argument("model", help="JSON file that 'mixle fit --out' or fitted.save wrote")
    score.add_argument("table", help="CSV or Parquet file with the columns of the fit")
    score.add_argument("--rows", action="store_true", help="write one CSV line for each row instead of the totals")
    sample = _parser(commands, "sample", "draw rows from a fit", _sample)
    sample.add_argument("model", help="JSON file that 'mixle fit --out' or fitted.save wrote")
    sample.add_argument("-n", type=count(1), default=1, help="number of rows (default: 1)")
    sample.add_argument("--seed", type=count(0, 2**32 - 1), default=0, help="seed of the draw (default: 0)")


def add_family(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take families of columns."""
    parser.add_argument(
        "--family",
        action="append",
        default=[],
        type=_assignment,
        metavar="COLUMN=FAMILY",
        help="family of a column instead of the inferred one, as share=Beta; Ignored leaves it out; may be repeated",
    )


def _parser(commands: Any, name: str, does: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=does,
        description=f"{does.capitalize().replace('csv', 'CSV').replace('parquet', 'Parquet')}.",
        epilog=f"{_EXAMPLES[name]}\n\n{_ENDS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run=run, parser=parser)
    return parser


def _assignment(text: str) -> tuple[str, str]:
    column, sign, family = text.rpartition("=")
    if not sign or not column or not family:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=FAMILY")
    return column, family


def _fit(read: argparse.Namespace, out: Screen, err: Screen) -> int:
    import mixle.tables
    from mixle.tables.reading import read_file

    if read.backend == "local" and read.workers is not None:
        read.parser.error("--backend local fits in this process: leave out --workers, or use --backend mp")
    if read.out is not None:
        refuse_place(read.out, read.table)
    table = read_file(read.table)
    schema = schema_told(table, dict(read.family))
    pool = {} if read.workers is None else {"num_workers": read.workers}
    if read.precision != "float64":
        pool["precision"] = read.precision
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        fitted = mixle.tables.fit(
            table, read.components, schema, read.backend, read.trials, read.iterations, read.seed, progress=True, **pool
        )
    if any(issubclass(item.category, InterruptWarning) for item in caught):
        raise KeyboardInterrupt  # half a search is no fit to go on with
    if read.out is not None:
        fitted.save(read.out)
    for item in caught:
        err.note(f"mixle: {item.message}")
    if read.json:
        from dataclasses import asdict

        told = {**asdict(fitted.chosen), "aic": fitted.aic, "digest": fitted.model.digest(), "out": read.out}
        told["weights"] = fitted.model.w.tolist()
        told["families"] = {str(field.name): field.family for field in fitted.schema}
        out.say(json.dumps(told))
        return 0
    out.say(str(fitted.schema), "", fitted.report(), "", fitted.summary(), "", f"sha256 {fitted.model.digest()}")
    if read.out is not None:
        out.say(f"Saved. Next: mixle score {read.out} {read.table}")
    return 0


def schema_told(table: Any, told: dict[str, str]) -> Any:
    """Return the schema of a table with the families that were told.

    Columns that are left out are not looked at, so they need not be readable.

    Parameters
    ----------
    table : table
        What `read_file` returned.
    told : dict
        Family of each column that has one by name.

    Raises
    ------
    SchemaError
        With the words that leave out each column that cannot be read.
    """
    import shlex

    import mixle.tables
    from mixle.tables.schemas import Field, Schema

    names = list(table) if isinstance(table, dict) else table.column_names
    kept = [name for name in names if told.get(name) != "Ignored"]
    if not kept:
        return mixle.tables.schema(table).replace(told)
    try:
        found = mixle.tables.schema(table, kept)
    except SchemaError as error:
        lost = [name for name in kept if _unreadable(table, name)]
        if len(lost) == len(kept):
            raise
        words = " ".join(f"--family {shlex.quote(f'{name}=Ignored')}" for name in lost)
        raise SchemaError(f"{error}; here: {words}") from None
    fields = [found[name] if name in kept else Field(name, "Ignored", None, "as told") for name in names]
    return Schema(fields, found.rows).replace(told)


def _unreadable(table: Any, name: Any) -> bool:
    import mixle.tables

    try:
        mixle.tables.schema(table, [name])
    except SchemaError:
        return True
    return False


def _score(read: argparse.Namespace, out: Screen, _: Screen) -> int:
    import mixle.tables

    fitted = mixle.tables.load(read.model)
    rows = fitted.schema.read(read.table)
    clusters, scores = fitted.predict(rows), fitted.score_rows(rows)
    if read.json:
        values = [score if math.isfinite(score) else None for score in scores.tolist()]
        mean = float(scores.mean())
        told = {"rows": len(scores), "mean_log_density": mean if math.isfinite(mean) else None}
        out.say(json.dumps({**told, "clusters": clusters.tolist(), "log_density": values}))
        return 0
    if read.rows:
        lines = zip(clusters.tolist(), scores.tolist(), strict=True)
        out.say("cluster,log_density", *(f"{cluster},{score!r}" for cluster, score in lines))
        return 0
    out.say(f"{counted(len(scores), 'rows')}, mean log-density {scores.mean():.6g} nats")
    impossible = int((~(scores > -math.inf)).sum())
    if impossible:
        out.say(f"{impossible:,} of them hold{'s' if impossible == 1 else ''} a value that the fit thinks impossible")
    for k in range(len(fitted.model.w)):
        held = int((clusters == k).sum())
        share, weight = 100 * held / len(scores), 100 * fitted.model.w[k]
        out.say(f"Cluster {k}: {counted(held, 'rows')} ({share:.1f} %; {weight:.1f} % fitted)")
    return 0


def _told(value: Any) -> Any:
    """Return a drawn value as a file of a table holds it, so that it is read as what it was."""
    if isinstance(value, timedelta):
        return f"{value.days} days {str(value - timedelta(value.days)).zfill(8)}"
    return value.isoformat(" ") if isinstance(value, datetime) else value


def _sample(read: argparse.Namespace, out: Screen, _: Screen) -> int:
    import mixle.tables

    columns = mixle.tables.load(read.model).sample(read.n, read.seed)
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if read.json:
        out.say(json.dumps([dict(zip(map(str, columns), row, strict=True)) for row in rows], default=_told))
        return 0
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([list(columns), *([_told(value) for value in row] for row in rows)])
    out.say(text.getvalue().removesuffix("\n"))
    return 0
