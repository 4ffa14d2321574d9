"""Sampling of hidden Markov models."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.errors import NonGenerativeSequenceError
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.null import NullDistribution
from mixle.stats.contract import DistributionSampler
from mixle.stats.sequences.paths import draw_paths, draw_states

__all__ = ["HiddenMarkovSampler"]

#: A chain that has not reached a terminal state after so many steps is taken to have none in reach.
PATIENCE = 1_000_000


class HiddenMarkovSampler(DistributionSampler):
    """Sampler of a `HiddenMarkovModelDistribution`.

    Parameters
    ----------
    dist : HiddenMarkovModelDistribution
        The law.
    seed : int, optional
        Seed of the draws.
    """

    def __init__(self, dist: Any, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())
        self.elements = [law.sampler(self.new_seed()) for law in dist.emissions]
        self._first, self._next = np.cumsum(dist.w), np.cumsum(dist.transitions, axis=1)

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of elements, or a list of `size` such lists.

        Raises
        ------
        NonGenerativeSequenceError
            If there is neither a law of the length nor a terminal state.
        """
        rows = self.elements_along(self.sample_states(1 if size is None else size))
        return rows[0] if size is None else rows

    def elements_along(self, paths: list[np.ndarray]) -> list[list[Any]]:
        """Return drawn elements of sequences whose states are `paths`."""
        states = np.concatenate([*paths, np.zeros(0, np.int64)]).astype(np.int64)
        drawn: list[Any] = [None] * len(states)
        for k, sampler in enumerate(self.elements):
            where = np.flatnonzero(states == k)
            if where.size:
                for place, value in zip(where.tolist(), plain_list(sampler.sample(int(where.size))), strict=True):
                    drawn[place] = value
        ends = np.cumsum([len(path) for path in paths]).tolist()
        return [drawn[end - len(path) : end] for end, path in zip(ends, paths, strict=True)]

    def sample_states(self, size: int) -> list[np.ndarray]:
        """Return `size` paths of hidden states."""
        terminal = self.dist.terminal_states
        if terminal is not None:
            return [self._until(frozenset(terminal)) for _ in range(size)]
        if isinstance(self.dist.len_dist, NullDistribution):
            raise NonGenerativeSequenceError(
                "a hidden Markov model without a law of the length cannot be sampled; pass len_dist="
            )
        return self.states_of(np.array([int(n) for n in self.lengths.sample(size)], np.int64))

    def states_of(self, lengths: np.ndarray) -> list[np.ndarray]:
        """Return paths of hidden states of these lengths."""
        return draw_paths(lengths, self._first, self._next, self.rng)

    def _until(self, terminal: frozenset[int]) -> np.ndarray:
        law, path = self._first, []
        for _ in range(PATIENCE):
            path.append(int(draw_states(law[None, :], self.rng.random_sample(1))[0]))
            if path[-1] in terminal:
                return np.array(path, np.int64)
            law = self._next[path[-1]]
        raise NonGenerativeSequenceError(
            f"no terminal state was reached in {PATIENCE} steps; give a way to one more weight, or use len_dist="
        )
