"""General slots: members of the component axis that are called one by one, or together where their family can."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mixle.stats import together
from mixle.stats.kinds import LOG_ZERO
from mixle.stats.precision import FLOAT64, computing
from mixle.stats.stacking.features import tiles
from mixle.stats.stacking.lanes import each
from mixle.stats.stacking.plan import Attached
from mixle.stats.stacking.tree import Slot

__all__ = ["GeneralParts", "PerComponent"]


class PerComponent(NamedTuple):
    """Payload of components whose encoders differ: distinct payloads, and which one each component reads."""

    payloads: tuple[Any, ...]
    which: tuple[int, ...]

    def of(self, k: int) -> Any:
        """Return component `k`'s payload."""
        return self.payloads[self.which[k]]


class GeneralParts:
    """The general slots of one chunk.

    They compute in float64, whatever the rest does. A member whose encoder cannot cut its payload is scored over the
    whole chunk at once, and its responsibilities are kept until the last block.
    """

    def __init__(self, attached: tuple[Attached, ...], count: int, rows: int) -> None:
        self.parts = [part for part in attached if part.slot.node.kind == "general"]
        self.count, self.rows = count, rows
        self.members = {part.slot.index: part.slot.node.members for part in self.parts}
        self.encoders: dict[tuple[int, int], Any] = {}
        self.accumulators: dict[int, list[Any]] = {}
        self._scores: dict[tuple[int, int], np.ndarray] = {}
        self._kept: dict[tuple[int, int], np.ndarray] = {}
        self._rng: Any = None
        self._seeds: tuple[Any, ...] = ()

    def begin(self, rng: Any, seeds: tuple[Any, ...] = ()) -> None:
        """Let members be initialised rather than updated, mixtures among them from `seeds` (one per component)."""
        self._rng, self._seeds = rng, seeds

    def _seed(self, part: Attached, k: int) -> Any:
        """Return the seeds of one member, found along its path through composites."""
        seed = self._seeds[k] if self._seeds else None
        for step in part.slot.path:
            if seed is not None and step >= 0:
                seed = seed[step]
        return seed

    def prepare(self, estimators: tuple[Slot, ...]) -> None:
        """Make an accumulator per member."""
        for part in self.parts:
            factories = [e.accumulator_factory() for e in estimators[part.slot.index].node.members]
            made = [factory.make() for factory in factories]
            self.accumulators[part.slot.index] = made
            for k, accumulator in enumerate(made):
                self.encoders.setdefault((part.slot.index, k), accumulator.acc_to_encoder())

    def _payload(self, part: Attached, k: int) -> Any:
        # deeper in the tree a PerComponent belongs to the member, itself a mixture
        return part.payload.of(k) if not part.slot.path and isinstance(part.payload, PerComponent) else part.payload

    def _cut(self, part: Attached, k: int, start: int, stop: int) -> Any:
        """Return the payload of own rows ``start:stop``; None if it cannot be cut."""
        key = (part.slot.index, k)
        if key not in self.encoders:
            self.encoders[key] = self.members[part.slot.index][k].dist_to_encoder()
        payload = self._payload(part, k)
        if start == 0 and stop == self._own_rows(part):
            return payload
        cut = getattr(self.encoders[key], "slice", None)
        try:
            return None if cut is None else cut(payload, start, stop)
        except NotImplementedError:
            return None

    def _together(self, part: Attached) -> bool:
        """Return whether the members read one payload, block by block, and are called together."""
        key = (part.slot.index, 0)
        if isinstance(part.payload, PerComponent) or key in self._scores or key in self._kept:
            return False
        return together.able(self.members[part.slot.index])

    def _own_rows(self, part: Attached) -> int:
        return self.rows if part.present is None else len(part.present)

    def score(self, start: int, stop: int, out: np.ndarray, least: float = LOG_ZERO) -> None:
        """Add the members' log-densities of chunk rows ``start:stop``, not below `least`, to `out` (K, n)."""
        for part in self.parts:
            a, b, where = part.span(start, stop)
            if a == b:
                continue
            with computing(FLOAT64):
                if self._together(part):
                    each(partial(self._score_tile, part, (a, b), where, out, least), tiles(self.count))
                else:
                    each(partial(self._score_one, part, (a, b), where, out, least), range(self.count))

    def _score_tile(
        self, part: Attached, own: tuple[int, int], where: Any, out: np.ndarray, least: float, cut: tuple[int, int]
    ) -> None:
        payload = self._cut(part, cut[0], *own)
        if payload is not None:
            values = together.densities(self.members[part.slot.index][cut[0] : cut[1]], payload)
            if values is not None:
                out[cut[0] : cut[1], where] += np.maximum(values, least, out=values)
                return
        for k in range(*cut):
            self._score_one(part, own, where, out, least, k)

    def _score_one(
        self, part: Attached, own: tuple[int, int], where: Any, out: np.ndarray, least: float, k: int
    ) -> None:
        key, dist = (part.slot.index, k), self.members[part.slot.index][k]
        payload = None if key in self._scores else self._cut(part, k, *own)
        if payload is not None:
            values = dist.seq_log_density(payload)
        else:
            if key not in self._scores:
                self._scores[key] = np.asarray(dist.seq_log_density(self._payload(part, k)))
            values = self._scores[key][own[0] : own[1]]
        out[k, where] += np.maximum(values, least)

    def update(self, start: int, stop: int, r: np.ndarray) -> None:
        """Give the members' accumulators their weights for chunk rows ``start:stop``."""
        for part in self.parts:
            a, b, where = part.span(start, stop)
            if a == b:
                continue
            one = partial(self._update_one, part, (a, b), where, r)
            if self._rng is not None:  # members draw from one stream, in order
                for k in range(self.count):
                    one(k)
                continue
            with computing(FLOAT64):
                if self._together(part):
                    each(partial(self._update_tile, part, (a, b), where, r), tiles(self.count))
                else:
                    each(one, range(self.count))

    def _update_tile(
        self, part: Attached, own: tuple[int, int], where: Any, r: np.ndarray, cut: tuple[int, int]
    ) -> None:
        payload = self._cut(part, cut[0], *own)
        if payload is not None:
            made = self.accumulators[part.slot.index][cut[0] : cut[1]]
            models = self.members[part.slot.index][cut[0] : cut[1]]
            if together.update(made, payload, np.array(r[cut[0] : cut[1], where], float), models):
                return
        for k in range(*cut):
            self._update_one(part, own, where, r, k)

    def _update_one(self, part: Attached, own: tuple[int, int], where: Any, r: np.ndarray, k: int) -> None:
        key = (part.slot.index, k)
        weights = np.array(r[k, where], float)
        # a mixture's start looks at the whole chunk: block by block its components would change places
        whole = key in self._kept or (self._rng is not None and hasattr(self._accumulator(part, k), "start"))
        payload = None if whole else self._cut(part, k, *own)
        if payload is not None:
            self._feed(part, k, payload, weights)
        else:
            kept = self._kept.setdefault(key, np.zeros(self._own_rows(part)))
            kept[own[0] : own[1]] = weights

    def _feed(self, part: Attached, k: int, payload: Any, weights: np.ndarray) -> None:
        accumulator = self._accumulator(part, k)
        if self._rng is not None:
            supported = getattr(accumulator, "supported_rows", lambda _: None)(payload)
            weights = weights if supported is None else np.where(supported, weights, 0.0)
        seed = self._seed(part, k)
        if seed is not None:
            accumulator.start(payload, np.zeros(len(weights)), seed, 1.0, weights)
        elif self._rng is not None:
            accumulator.seq_initialize(payload, weights, self._rng)
        else:
            accumulator.seq_update(payload, weights, self.members[part.slot.index][k])

    def _accumulator(self, part: Attached, k: int) -> Any:
        return self.accumulators[part.slot.index][k]

    def values(self) -> dict[int, tuple[Any, ...]]:
        """Return each slot's tuple of member values."""
        for part in self.parts:
            for k in range(self.count):
                kept = self._kept.pop((part.slot.index, k), None)
                if kept is not None:
                    with computing(FLOAT64):
                        self._feed(part, k, self._payload(part, k), kept)
        return {index: tuple(a.value() for a in made) for index, made in self.accumulators.items()}
