"""The E-step of K stacked components over one encoded chunk, block by block.

Per block: fill the features, one product for the log-densities, log-sum-exp in place, one product for the
statistics. Memory beyond the chunk does not depend on its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.precision import FLOAT64, Working
from mixle.stats.recall import recalled
from mixle.stats.stacking.facts import Facts, chunk_labels
from mixle.stats.stacking.features import Features, scratch, tiles, use_dense
from mixle.stats.stacking.frame import frame_of_rows
from mixle.stats.stacking.gather import Gather
from mixle.stats.stacking.general import GeneralParts
from mixle.stats.stacking.lanes import each
from mixle.stats.stacking.lookup import Laid
from mixle.stats.stacking.natural import impossible
from mixle.stats.stacking.plan import Attached, Plan, attach
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.stacking.suits import FAR_ROW, holds, suits
from mixle.stats.stacking.tree import Node, Slot, flatten, signature, unify
from mixle.stats.sums import BLOCK, block_sum, exponentials

__all__ = ["Block", "Walk", "accumulate_given", "row_log_densities"]


class Block(NamedTuple):
    """One block of rows after the E-step.

    Responsibilities are (K, n) with n padded to 8 columns, row log-densities (n,); `impossible` tells the rows that
    no component supports, None if there are none.
    """

    start: int
    stop: int
    responsibilities: np.ndarray
    log_density: np.ndarray
    impossible: np.ndarray | None


class Walk:
    """Scores, and on demand accumulates, one chunk under K components.

    Parameters
    ----------
    components : sequence of distributions
        The K components.
    weights : ndarray, shape (K,)
        Mixture weights.
    log_weights : ndarray, shape (K,)
        Their logarithms, log 0 as -1e300.
    payload, rows
        Encoded chunk and its number of rows.
    precision : Working
        What to compute in; float64 where float32 would not do (`suits`), and for components called one by one.
    """

    @one_blas_thread()
    def __init__(
        self,
        components: Sequence[Any],
        weights: np.ndarray,
        log_weights: np.ndarray,
        payload: Any,
        rows: int,
        precision: Working = FLOAT64,
    ) -> None:
        self._given = (components, weights, log_weights, payload, rows)
        self.node, slots = recalled("tree", components, lambda: _tree(components))
        self.payload, self.rows, self.count = payload, rows, len(components)
        self.attached = attach(slots, payload)
        self.plan = Plan.of(self.attached)
        key = (*self.plan.widths.items(), weights.tobytes(), log_weights.tobytes())
        facts = recalled(key, components, lambda: Facts(self.plan, weights, log_weights))
        if precision is not FLOAT64 and not suits(self.plan, facts.frame, self.attached, facts.members, facts.found):
            precision = FLOAT64
        self.precision = precision
        laid = facts.lay(self.attached)
        self.features = Features(self.plan, facts.frame, self.attached, laid, facts.dense_labels, precision)
        self.natural = facts.natural(precision).bound(self.features)
        self.general = GeneralParts(self.attached, self.count, rows)
        leaves = [part for part in self.attached if part.rows is not None]
        self._masked = [part for part in leaves if part.rows is not None and part.rows.outside is not None]
        self._based = [part for part in leaves if _base(part, 0, 0) is not None]
        self._row = scratch(self, 2, BLOCK, dtype=precision.dtype)
        self._tiles = tiles(self.count)

    def log_densities(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (start, stop, log-density plus log-weight of each component (K, n padded)) per block."""
        for start in range(0, self.rows, BLOCK):
            stop = min(start + BLOCK, self.rows)
            yield start, stop, self._scored(start, stop)

    def score_block(self, start: int, stop: int, out: np.ndarray) -> None:
        """Write log-density (without base measure) plus log-weight of rows ``start:stop``, at most a block, to `out`.

        `out` is (K, n), n padded to a multiple of 8.
        """
        self.natural.log_density(self.features, start, stop, out)
        if self.general.parts:
            self.general.score(start, stop, out, self.precision.log_zero)
        if self._masked:
            _mask(self._masked, start, stop, out, self.precision.log_zero)

    def check_scores(self, out: np.ndarray) -> None:
        """Let a watch look at the log-densities (K, n) of a block where they are used, before more is added."""
        watch = self.natural.watch
        if watch is not None and watch.due is not None:
            watch.used(out, self._whole and not self.features.far)

    @property
    def _whole(self) -> bool:
        """Whether what a watch knows is all that log-densities are made of."""
        return self.natural.whole and not (self.general.parts or self._masked)

    def label_table(self) -> np.ndarray | None:
        """Return what `score_block` writes for each label (K, L) where a row is one label; else None."""
        return None if self._masked or self._based else self.natural.by_label()

    def label_columns(self, start: int, stop: int) -> np.ndarray:
        """Return the column of `label_table` of each of the rows ``start:stop``."""
        return self.features.codes(self.plan.codes[0].index, start, stop)[0]

    def add_base(self, start: int, stop: int, density: np.ndarray) -> None:
        """Add the base measures of rows ``start:stop`` to `density` (n,)."""
        for part in self._based:
            a, b, where = part.span(start, stop)
            density[where] += _base(part, a, b)

    def blocks(self) -> Iterator[Block]:
        """Yield responsibilities and row log-densities; a row that no component supports has -inf and none."""
        previous = np.setbufsize(64)  # numpy's iterator otherwise copies short rows through its buffer
        self.natural.seen_again = self._whole  # in `_normalise`
        try:
            with np.errstate(all="ignore"):
                for start, stop, out in self.log_densities():
                    yield self._normalise(start, stop, out)
        finally:
            np.setbufsize(previous)

    def _normalise(self, start: int, stop: int, out: np.ndarray) -> Block:
        rows, width = stop - start, out.shape[1]
        top, total = self._row[0, :width], self._row[1, :width]
        self.check_scores(out)
        np.maximum.reduce(out, axis=0, out=top)
        if self.precision is not FLOAT64 and not top.min() > FAR_ROW:
            return self._exactly(start, stop, out)
        bad = impossible(top) if top.min() <= FLOAT64.log_zero / 10 else None
        if bad is not None:
            top[bad] = 0.0
        each(partial(_exponentials, out, top), self._tiles)
        np.add.reduce(out, axis=0, out=total)
        if bad is not None:
            out[:, bad] = 0.0
            total[bad] = 1.0
        density = np.log(total[:rows], dtype=np.float64)
        density += top[:rows]
        np.divide(1.0, total, out=total)
        each(partial(_multiply, out, total), self._tiles)
        if width > rows:
            out[:, rows:] = 0.0
        if self._based:
            self.add_base(start, stop, density)
        if bad is not None:
            bad = bad[:rows]
            density[bad] = -np.inf
        return Block(start, stop, out, density, bad)

    def _exactly(self, start: int, stop: int, out: np.ndarray) -> Block:
        """Return the block of float64, its responsibilities rounded to `out`."""
        exact = self._twin
        block = exact._normalise(start, stop, exact._scored(start, stop))  # noqa: SLF001 - another of this class
        np.copyto(out, block.responsibilities, casting="same_kind")
        return block._replace(responsibilities=out)

    def _scored(self, start: int, stop: int) -> np.ndarray:
        out = self._buffer[:, : -(-(stop - start) // 8) * 8]
        self.score_block(start, stop, out)
        return out

    @cached_property
    def _buffer(self) -> np.ndarray:
        return scratch(self, self.count, BLOCK, dtype=self.precision.dtype)

    @cached_property
    def _twin(self) -> Walk:
        """Return the walk of the same chunk in float64."""
        return Walk(*self._given)

    def score(self) -> np.ndarray:
        """Return the log-density of each row, shape (n,)."""
        return row_log_densities(self)

    @one_blas_thread()
    def accumulate(
        self, weights: np.ndarray | None, estimators: Node | None, sink: Callable[[int, int, np.ndarray], None] | None
    ) -> tuple[StackedStatistic | None, float, int]:
        """Return (statistic, summed log-density, rows left out) of the weighted rows.

        Parameters
        ----------
        weights : ndarray, shape (n,), or None
            Row weights; None means ones.
        estimators : Node or None
            Tree of the estimators, equal to the components' tree: the statistic is stacked. None: `sink` is called
            with (start, stop, weighted responsibilities (K, n)) instead.
        """
        if self.precision is FLOAT64 or holds(weights):
            found = self._accumulate(weights, estimators, sink)
            if self.precision is FLOAT64 or found[0] is None or found[0].finite:
                return found
        return self._twin.accumulate(weights, estimators, sink)

    def _accumulate(
        self, weights: np.ndarray | None, estimators: Node | None, sink: Callable[[int, int, np.ndarray], None] | None
    ) -> tuple[StackedStatistic | None, float, int]:
        gather = None if estimators is None else self._gather(estimators)
        total, left_out = 0.0, 0
        for block in self.blocks():
            part = None if weights is None else weights[block.start : block.stop]
            density = block.log_density
            if block.impossible is not None:
                density[block.impossible] = 0.0
                left_out += int((block.impossible if part is None else block.impossible & (part > 0.0)).sum())
            total += block_sum(density, part)
            r = _weighted(block.responsibilities, part)
            if gather is None and sink is not None:
                sink(block.start, block.stop, r[:, : block.stop - block.start])
            elif gather is not None:
                standing = self.features.block[:, : r.shape[1]]
                gather.add(block.start, block.stop, standing, r)
                if self.general.parts:
                    self.general.update(block.start, block.stop, r)
        if gather is None or estimators is None:
            return None, total, left_out

        def again() -> Iterator[tuple[int, int, np.ndarray]]:
            for block in self.blocks():
                part = None if weights is None else weights[block.start : block.stop]
                yield block.start, block.stop, _weighted(block.responsibilities, part)

        return self._finish(gather, estimators, again), total, left_out

    def gather(self, estimators: Node, given: Callable[[], Iterator[tuple[int, int, np.ndarray]]]) -> StackedStatistic:
        """Return the statistic of rows whose weighted responsibilities come from elsewhere.

        Parameters
        ----------
        estimators : Node
            Tree of the estimators, equal to the components' tree.
        given : callable
            Yields (start, stop, responsibilities (K, n), n padded to 8 with zeros), blocks of at most `BLOCK` rows
            in order. It is called a second time where a scatter has to be summed again.
        """
        gather = self._gather(estimators)
        for start, stop, r in given():
            gather.add(start, stop, None, r)
            if self.general.parts:
                self.general.update(start, stop, r)
        return self._finish(gather, estimators, given)

    def _gather(self, estimators: Node) -> Gather:
        centres = {(i, k): self.natural.found[i].mean[k] for _, i, k in self.natural.direct}
        self.general.prepare(flatten(estimators))
        return Gather(self.features, self.count, self.natural.direct, centres)

    def _finish(
        self, gather: Gather, estimators: Node, again: Callable[[], Iterator[tuple[int, int, np.ndarray]]]
    ) -> StackedStatistic:
        with np.errstate(all="ignore"):
            gather.finish()
            if gather.needs_second_pass:
                for start, stop, r in again():
                    gather.again(start, stop, r)
                gather.settle()
        return gather.statistic(self.general.values(), signature(estimators))


def _tree(components: Sequence[Any]) -> tuple[Node, tuple[Slot, ...]]:
    node = unify(components)
    return node, flatten(node)


@one_blas_thread()
def row_log_densities(walk: Any) -> np.ndarray:
    """Return the log-density of each row of a walk by its blocks, shape (n,)."""
    result = np.empty(walk.rows)
    for block in walk.blocks():
        result[block.start : block.stop] = block.log_density
    return result


def _exponentials(out: np.ndarray, top: np.ndarray, cut: tuple[int, int]) -> None:
    part = out[cut[0] : cut[1]]
    np.subtract(part, top, out=part)
    exponentials(part)


def _multiply(out: np.ndarray, by: np.ndarray, cut: tuple[int, int]) -> None:
    part = out[cut[0] : cut[1]]
    np.multiply(part, by, out=part)


def _mask(parts: Sequence[Attached], start: int, stop: int, out: np.ndarray, value: float) -> None:
    """Write `value` for all components in the rows that lie outside the support of a leaf."""
    for part in parts:
        if part.rows is not None and part.rows.outside is not None:
            a, b, where = part.span(start, stop)
            outside = part.rows.outside[a:b]
            if outside.any():
                out[:, np.flatnonzero(outside) if isinstance(where, slice) else where[outside]] = value


def _base(part: Attached, start: int, stop: int) -> np.ndarray | None:
    rows, leaf = part.rows, part.slot.node.leaf
    if rows is None:
        return None
    if leaf is None:
        return None if rows.base is None else rows.base[start:stop]
    return leaf.base(rows.cut(start, stop)) if rows.base is None else rows.base[start:stop]


def _weighted(r: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    if weights is not None:
        r[:, : len(weights)] *= weights.astype(r.dtype, copy=False)
    return r


@one_blas_thread()
def accumulate_given(
    estimators: Node,
    payload: Any,
    rows: int,
    given: Callable[[int, int], np.ndarray],
    rng: Any,
    seeds: tuple[Any, ...] = (),
) -> StackedStatistic:
    """Return the statistic of given responsibilities, before there is a model.

    Parameters
    ----------
    estimators : Node
        Common tree of the K estimators.
    payload, rows
        Encoded chunk and its number of rows.
    given : callable
        ``given(start, stop)`` returns weighted responsibilities (K, n), n padded to a multiple of 8 with zeros; it
        may be asked twice for a block.
    rng : RandomState
        Source of randomness for general slots.
    seeds : tuple
        Seeds of mixtures inside the components, one entry per component, or empty.
    """
    slots = flatten(estimators)
    attached = attach(slots, payload)
    plan = Plan.of(attached)
    count = len(estimators.members)
    laid = {slot.index: Laid.of(chunk_labels(attached[slot.index])) for slot in plan.codes}
    dense = use_dense(one.labels for one in laid.values())
    features = Features(plan, frame_of_rows(plan, attached, count), attached, laid, dense)
    general = GeneralParts(attached, count, rows)
    general.prepare(slots)
    general.begin(rng, seeds)
    gather = Gather(features, count)
    cuts = [(start, min(start + BLOCK, rows)) for start in range(0, rows, BLOCK)]

    def supported(start: int, stop: int) -> np.ndarray:
        r = given(start, stop)
        _mask(attached, start, stop, r, 0.0)
        return r

    with np.errstate(all="ignore"):
        for start, stop in cuts:
            r = supported(start, stop)
            gather.add(start, stop, None, r)
            general.update(start, stop, r)
        gather.finish()
        if gather.needs_second_pass:
            for start, stop in cuts:
                gather.again(start, stop, supported(start, stop))
            gather.settle()
    return gather.statistic(general.values(), signature(estimators))
