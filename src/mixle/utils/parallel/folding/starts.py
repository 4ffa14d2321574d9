"""A random start on the driver's side: sample rows, seed centres, initialize, fold.

Rows are chosen by numbers that depend on the seed and their position only, so a start does not depend on where rows
live; across shard maps it agrees to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import ContractError
from mixle.utils.parallel.folding.tasks import Initialize, Result, Sample

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Task

__all__ = ["check_start", "join_columns", "noted", "start_results"]

#: Rows per component that a start keeps whatever share of them it is told to keep.
LEAST_KEPT = 8

Round = Callable[["Task"], list[Result]]


def check_start(estimator: Any, rows: int, usable: int | None = None, width: int | None = None) -> None:
    """Refuse a start of more components than there are rows of positive weight.

    Parameters
    ----------
    estimator : ParameterEstimator
        `mixle.stats.starts.least_start_rows` tells how many rows it needs.
    rows : int
        Number of rows n.
    usable : int, optional
        Rows of positive weight, if that is less.
    width : int, optional
        Columns of a row, where the rows are a two-dimensional array.

    Raises
    ------
    ContractError
        A ValueError naming n and K.
    """
    from mixle.stats.starts import least_start_rows

    components = least_start_rows(estimator)
    count = rows if usable is None else usable
    if components <= count:
        return
    kind = ("row" if count == 1 else "rows") + ("" if count == rows else " of positive weight")
    message = f"{count} {kind} (n={count}) cannot start {components} components (K={components}); "
    if width is not None and rows < width:
        what = f"a row of {width} columns was read" if rows == 1 else f"rows of {width} columns were read"
        message += f"{what}; if they are the observations pass data.reshape(-1, 1) or data.T"
    else:
        message += f"pass at most {count} component{'s' * (count != 1)}, more rows, or prev_estimate="
    raise ContractError(message)


def start_results(
    run: Round, estimator: Any, rng: Any, p: float, shards: int, first_row: int
) -> tuple[list[Result], tuple[str, ...]]:
    """Run the rounds of a start and return the results to fold, and what it had to repair, in words.

    Parameters
    ----------
    run : callable
        Runs a task on every shard and returns the results in shard order.
    estimator : Any
        Estimator to start; with ``num_start_components() -> int`` it takes part in seeding.
    rng : numpy.random.RandomState
        Source of the seeds; it is advanced by three words, however many shards there are.
    p : float
        Probability that a row is kept, in (0, 1]; at least `LEAST_KEPT` rows per component are, if there are as many.
    shards : int
        Number of shards.
    first_row : int
        Position of the first row of positive weight, kept if no draw keeps any.
    """
    from numpy.random import RandomState

    from mixle.stats.starts import sample_size, start_components, start_notes

    seed, centre_seed, shards_seed = (int(rng.randint(2**31)) for _ in range(3))
    shard_seeds = tuple(int(s) for s in RandomState(shards_seed).randint(2**31, size=max(1, shards)))
    components = start_components(estimator)
    centres = None
    if components:
        size = sample_size(components)
        draws, centres = _seeded(run(Sample(seed, size)), size, estimator, centre_seed)
        usable, least = draws[draws < 1.0], LEAST_KEPT * components  # a sample is larger than that
        p = 1.0 if len(usable) <= least else max(p, float(np.nextafter(usable[least - 1], 1.0)))
    task = Initialize(estimator, p, seed, shard_seeds, centres)
    notes = () if centres is None else start_notes(centres)
    results = run(task)
    if any(result.weight > 0.0 for result in results):
        return results, notes
    return run(Initialize(estimator, p, seed, shard_seeds, centres, keep_first=first_row)), notes


def noted(model: Any, notes: tuple[str, ...]) -> Any:
    """Return a started model, its repairs telling what the start had to do."""
    if notes and hasattr(model, "numerical_repairs"):
        model.__dict__["_repairs"] = (*model.numerical_repairs(), *notes)
    return model


def _seeded(results: list[Result], size: int, estimator: Any, seed: int) -> tuple[np.ndarray, Any]:
    """Merge the samples of all shards; return the smallest draws, ascending, and centres; None without columns."""
    pieces = [piece for result in results for piece in result.value]
    draws = np.concatenate([np.empty(0), *[piece[0] for piece in pieces]])
    if any(not columns for _, _, columns in pieces):
        return np.sort(draws)[:size], None
    positions = np.concatenate([piece[1] for piece in pieces])
    order = np.lexsort((positions, draws))[:size]
    columns = join_columns([piece[2] for piece in pieces], order)
    from numpy.random import RandomState

    from mixle.stats.starts import seed_start

    return draws[order], seed_start(estimator, columns, RandomState(seed))


def join_columns(parts: Sequence[Sequence[Any]], order: np.ndarray) -> list[Any]:
    """Concatenate the columns of several chunks and take the rows `order` of the whole.

    Codes of different chunks are brought to one table of labels: the labels of the taken rows, in the order of their
    first use, so that the result does not depend on how rows were cut into chunks.
    """
    from mixle.stats.starts import evened

    return [_join(list(column), order) for column in zip(*evened(parts), strict=True)]


def _join(column: list[Any], order: np.ndarray) -> Any:
    column[0] = column[0]._replace(wide=all(part.wide for part in column))
    missing = None
    if any(part.missing is not None for part in column):
        masks = [np.zeros(len(part.values), bool) if part.missing is None else part.missing for part in column]
        missing = np.concatenate(masks)[order]
    if all(part.labels is None for part in column):
        return column[0]._replace(values=np.concatenate([part.values for part in column])[order], missing=missing)
    table: dict[Any, int] = {}
    codes = [_shared_codes(part, table) for part in column]
    values = np.concatenate(codes)[order]
    labels = tuple(table)
    if not labels:  # every row is missing
        return column[0]._replace(values=values, labels=(), missing=missing)
    used, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    by_use = np.argsort(first, kind="stable")
    rank = np.empty(len(used), np.intp)
    rank[by_use] = np.arange(len(used))
    return column[0]._replace(values=rank[inverse], labels=tuple(labels[used[i]] for i in by_use), missing=missing)


def _shared_codes(part: Any, table: dict[Any, int]) -> np.ndarray:
    """Return the codes of `part` in the shared `table`, which grows by labels it has not seen."""
    if part.labels is None:
        raise ContractError(
            "an encoder gave codes for some chunks and numbers for others; columns() must keep one kind"
        )
    recode = np.array([table.setdefault(label, len(table)) for label in part.labels], dtype=np.intp)
    codes = np.asarray(part.values, dtype=np.intp)
    return recode[codes] if len(recode) else np.zeros(len(codes), np.intp)
