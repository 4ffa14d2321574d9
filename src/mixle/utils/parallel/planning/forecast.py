"""Peak memory of a worker, before it starts: a probe of rows is encoded and fitted here, under a count of allocations.

What grows with the rows is told from what does not by two probes of different size. To that comes what a worker is
before it has any rows: the interpreter, whose pages are shared by all workers of a launcher.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.inputs import check_rows, choose_encoder
from mixle.utils.parallel.folding.packing import packed
from mixle.utils.parallel.folding.shards import encode_shard, pick, split_range
from mixle.utils.parallel.folding.tasks import Sample
from mixle.utils.parallel.planning.devices import exact_int
from mixle.utils.parallel.planning.pace import Costs, RoundTime

__all__ = ["Baseline", "Footprint", "Forecast", "Phase", "forecast", "measure_footprint"]

#: Rows of the smaller probe: many blocks of the core and of the draws, so that buffers are as large as they get.
PROBE = 16_384
#: Sub-chunks of the probe that tells what grows with a shard from what grows with a piece of it.
CUTS = 4
#: What the allocator keeps at most of the memory of objects that are freed.
KEPT = 2.5e6
#: The bound is this much above the estimate, and at least so many bytes.
MARGIN, MARGIN_BYTES = 1.10, 5 << 19
#: Bytes per row of a shard that the allocator may keep of an array of numbers that was freed, and at most: workers have
#: their heap trimmed beyond it.
FREED, HEAP = 8.0, 4 << 20
#: Part of the memory of freed objects that stays, up to `KEPT`.
STAYS = 0.8


class Baseline(NamedTuple):
    """A worker with next to no rows, as a plain installation on Linux has it; `benchmarks/planner.py` measures it.

    Attributes
    ----------
    private_bytes, shared_bytes : int
        After a step: its own pages, and those that it shares with its launcher and the other workers, which split them.
    fresh_private_bytes, fresh_shared_bytes : int
        The same before its first step, while it encodes.
    """

    private_bytes: int = 10_000_000
    shared_bytes: int = 11_800_000
    fresh_private_bytes: int = 2_900_000
    fresh_shared_bytes: int = 16_000_000

    def of(self, workers: int) -> float:
        """Return the proportional part of one of `workers`, after a step."""
        return self.private_bytes + self.shared_bytes / (workers + 1)

    def fresh(self, workers: int) -> float:
        """Return the proportional part of one of `workers`, before its first step."""
        return self.fresh_private_bytes + self.fresh_shared_bytes / (workers + 1)


class Phase(NamedTuple):
    """Bytes of one kind of work on a shard: per row of it, per row of one of its sub-chunks, and in any case."""

    row_bytes: float
    piece_row_bytes: float
    fixed_bytes: float

    def of(self, shard_rows: int, piece_rows: int) -> float:
        """Return the bytes for a shard."""
        return self.row_bytes * shard_rows + self.piece_row_bytes * piece_rows + self.fixed_bytes


@dataclass(frozen=True)
class Footprint:
    """Bytes of one fit, per row and fixed.

    Attributes
    ----------
    raw_row_bytes : float
        A row as it lies in the pool's memory file.
    object_row_bytes : float
        A row as Python objects, while its shard is being encoded; 0 for arrays.
    encoded_row_bytes : float
        A row as it is kept; 0 where the encoding is a view of the rows.
    encode_row_bytes : float
        What encoding a row needs besides.
    phases : tuple of Phase
        What drawing a sample needs, and what a start and an E-step need; never at the same time.
    probe_rows : int
        Rows of the larger probe.
    strided_row_bytes : float
        A row as it is kept of a piece that is every n-th row of its shard; narrow rows are copied then.
    """

    raw_row_bytes: float
    object_row_bytes: float
    encoded_row_bytes: float
    encode_row_bytes: float
    phases: tuple[Phase, ...]
    probe_rows: int = 0
    strided_row_bytes: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """Peak memory of one worker (its proportional set size), and the seconds of a round.

    Attributes
    ----------
    estimate_bytes, bound_bytes : int
        What is expected, and what should not be exceeded.
    parts : dict
        Bytes by cause when there are most, while rows are encoded or during a step; they add up to the estimate.
    round_time : RoundTime or None
        Seconds of an E-step over all rows with its M-step; None if no costs were given.

    Examples
    --------
    >>> Forecast(3_000_000, 4_000_000, {"rows": 3_000_000}).bound_bytes
    4000000
    """

    estimate_bytes: int
    bound_bytes: int
    parts: dict[str, int]
    round_time: RoundTime | None = None


class _Counted:
    """Bytes that were allocated inside a block, and at its highest."""

    kept = 0
    peak = 0


@contextmanager
def _settled() -> Iterator[None]:
    """Leave what is there already out of the collections of garbage: in a large program each would take a second."""
    gc.collect()
    mine = gc.get_freeze_count() == 0
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


@contextmanager
def _counting() -> Iterator[_Counted]:
    """Count allocations of Python and numpy; a trace that is on already stays on."""
    import tracemalloc

    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start(1)
    counted = _Counted()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield counted
        now, peak = tracemalloc.get_traced_memory()
        counted.kept, counted.peak = now - before, peak - before
    finally:
        if not running:
            tracemalloc.stop()


def measure_footprint(
    data: Sequence[Any], estimator: Any, encoder: Any | None = None, probe_rows: int = PROBE
) -> Footprint:
    """Return what a fit of `estimator` to rows like `data` needs.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; the first ``2 * probe_rows`` of them are encoded and fitted here, twice.
    estimator : ParameterEstimator
        What is fitted.
    encoder : DataSequenceEncoder, optional
        By default the estimator's own.
    probe_rows : int
        Rows of the smaller probe.

    Returns
    -------
    Footprint

    Examples
    --------
    >>> import numpy as np
    >>> from mixle.stats import GaussianEstimator
    >>> found = measure_footprint(np.zeros(9000) + np.arange(9000), GaussianEstimator())
    >>> found.raw_row_bytes, found.object_row_bytes
    (8.0, 0.0)
    """
    rows = check_rows(data, "measure_footprint")
    least = exact_int(probe_rows, "probe_rows", 1) or 1
    encoder = choose_encoder("measure_footprint", estimator, None, encoder)
    large = min(len(rows), 2 * least)
    small = max(1, large // 2)
    sizes = ((small, 1), (large, 1), (large, CUTS))
    with _settled():
        first, second, pieces = (_probe(pick(rows, range(size)), estimator, encoder, cuts) for size, cuts in sizes)
    grown = max(1, large - small)
    pairs = zip(first[:5], second[:5], strict=True)
    raw, objects, encoded, encode, strided = (max(0.0, (b - a) / grown) for a, b in pairs)
    phases = (_phase(*peaks, small, large) for peaks in zip(first[5:], second[5:], pieces[5:], strict=True))
    return Footprint(raw, objects, encoded, encode, tuple(phases), large, strided)


def _phase(first: float, second: float, pieces: float, small: int, large: int) -> Phase:
    """Return a phase from its peaks: of the smaller probe, of the larger one, and of that in pieces."""
    step = max(0.0, (second - first) / max(1, large - small))
    apart = min(step, max(0.0, (second - pieces) / large / (1.0 - 1.0 / CUTS)))
    return Phase(step - apart, apart, max(0.0, second - step * large))


def _probe(rows: Any, estimator: Any, encoder: Any, cuts: int) -> tuple[float, ...]:
    """Return bytes: raw, as objects, encoded and kept, encoding besides, kept if strided, then each phase's peak."""
    import pickle

    from numpy.random import RandomState

    from mixle.utils.parallel.folding.registry import encoded_data

    count = len(rows)
    if isinstance(rows, np.ndarray) and rows.dtype.kind != "O":
        raw, objects, own = float(rows.nbytes), 0.0, rows
    else:
        raw, frame = float(len(pickle.dumps(rows, 5))), payload.encode_bytes(rows, allow_pickle=True)
        with _counting() as made:
            own = payload.decode(frame, allow_pickle=True)
        objects = float(made.kept)
        del frame
    with _counting() as made:
        shard = encode_shard(0, own, range(count), encoder, (range(count),))
    encoded, encode = float(made.kept), float(made.peak - made.kept)
    strided = 2.0 * _kept_strided(own, encoder)
    shard = encode_shard(0, own, range(count), encoder, split_range(range(count), cuts))
    with _counting() as drawn:
        Sample(0, 32).run(shard)
    handle = encoded_data(rows, estimator, encoder=encoder, sub_chunks=cuts)
    rng = RandomState(0)
    with _counting() as made:
        model = handle.pysp_seq_initialize(estimator, rng, 1.0)
        handle.pysp_seq_estimate(estimator, model)
    return raw, objects, encoded, encode, strided, float(drawn.peak), float(made.peak)


def _kept_strided(rows: Any, encoder: Any) -> float:
    """Return the bytes that a worker keeps of every second row."""
    half = range(0, len(rows), 2)
    with _counting() as made:
        shard = packed(encode_shard(0, pick(rows, half), half, encoder, (half,)))
    del shard
    return float(made.kept)


def forecast(
    footprint: Footprint,
    total_rows: int,
    workers: int,
    *,
    num_shards: int | None = None,
    sub_chunks: int = 1,
    baseline: Baseline | None = None,
    costs: Costs | None = None,
    backend: str = "mp",
) -> Forecast:
    """Return the peak memory of the worker with most rows, and with `costs` the seconds of a round.

    Parameters
    ----------
    footprint : Footprint
        From `measure_footprint`.
    total_rows : int
        Rows of all shards.
    workers : int
        Worker processes.
    num_shards : int, optional
        Shards; one per worker by default.
    sub_chunks : int
        Encoded pieces per shard: one is encoded at a time.
    baseline : Baseline, optional
        A worker without rows; that of a plain installation on Linux by default.
    costs : Costs, optional
        From `measure_costs`.
    backend : {"mp", "threads", "local"}
        Where the rounds run.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from mixle.utils.parallel.planning.forecast import Baseline, Footprint, Phase
    >>> plain = Footprint(8.0, 0.0, 0.0, 1.0, (Phase(8.0, 16.0, 100_000.0),))
    >>> one = forecast(plain, 1_000_000, 4, baseline=Baseline(0, 0, 0, 0))
    >>> one.parts["rows"], one.estimate_bytes < one.bound_bytes
    (2000000, True)
    """
    rows = exact_int(total_rows, "total_rows", 0) or 0
    count = exact_int(workers, "workers", 1) or 1
    shards = max(count, exact_int(num_shards, "num_shards", 1, optional=True) or count)
    pieces = exact_int(sub_chunks, "sub_chunks", 1) or 1
    per_shard = math.ceil(rows / shards)
    mine = min(rows, per_shard * math.ceil(shards / count))
    piece = math.ceil(per_shard / pieces)
    base = Baseline() if baseline is None else baseline
    objects = footprint.object_row_bytes * per_shard
    common = {
        "rows": footprint.raw_row_bytes * mine,
        "encoded": max(footprint.encoded_row_bytes, footprint.strided_row_bytes if pieces > 1 else 0.0) * mine,
        "kept free": min(KEPT, STAYS * objects),
    }
    encoding = {"worker": base.fresh(count), **common, "encoding": objects + footprint.encode_row_bytes * piece}
    step = {"worker": base.of(count), **common, "step": max(phase.of(per_shard, piece) for phase in footprint.phases)}
    parts = max(encoding, step, key=lambda phase: sum(phase.values()))  # first the one, then the other
    told = {name: round(value) for name, value in parts.items()}
    estimate = sum(told.values())
    bound = math.ceil(min(HEAP, FREED * per_shard) + max(estimate * MARGIN, estimate + MARGIN_BYTES))
    if costs is None:
        return Forecast(estimate, bound, told)
    seconds = costs.round(rows, backend=backend, workers=count, num_shards=shards, sub_chunks=pieces)
    return Forecast(estimate, bound, told, seconds)
