"""Drawing from a law that depends on what is given."""

from __future__ import annotations

from typing import Any

from mixle.errors import NonGenerativeConditionalError
from mixle.stats.combinators.fields import plain_list
from mixle.stats.contract import ConditionalSampler, DistributionSampler
from mixle.stats.drawn import seeded

__all__ = ["ConditionalSamplerGiven", "ConditionalValuesSampler"]


class ConditionalSamplerGiven(ConditionalSampler):
    """Draws values of a `ConditionalDistribution` given a key."""

    def __init__(self, dist: Any, seed: int | None = None) -> None:
        self.dist, rng = dist, seeded(seed)
        self.children = {key: part.sampler(int(rng.randint(2**31))) for key, part in dist.dmap.items()}
        self.default = dist.default_dist.sampler(int(rng.randint(2**31)))

    def sample_given(self, x: Any, size: int | None = None) -> Any:
        """Return a value given the key `x`, or `size` of them.

        Raises
        ------
        ValueError
            If there is no law for this key.
        """
        child = self.children.get(x)
        if child is None and not self.dist.has_default:
            known = ", ".join(map(repr, list(self.children)[:8]))
            raise ValueError(f"a Conditional has no law for the key {x!r:.80}; known are {known}; pass default_dist")
        return (self.default if child is None else child).sample(size)


class ConditionalValuesSampler(DistributionSampler):
    """Sampler of pairs of a `ConditionalDistribution`.

    Raises
    ------
    NonGenerativeConditionalError
        On `sample` without a law of what is given.
    """

    def __init__(self, dist: Any, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.given = dist.given_dist.sampler(self.new_seed())
        self.values = dist.conditional_sampler(self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a pair, or a list of `size` pairs."""
        if not self.dist.has_given:
            raise NonGenerativeConditionalError(
                "a Conditional without a law of what is given cannot be sampled: pass given_dist, or draw values with "
                "model.conditional_sampler(seed).sample_given(key)"
            )
        keys = [self.given.sample()] if size is None else plain_list(self.given.sample(size))
        places: dict[Any, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        drawn: list[Any] = [None] * len(keys)
        for key, where in places.items():
            for i, value in zip(where, plain_list(self.values.sample_given(key, len(where))), strict=True):
                drawn[i] = (keys[i], value)
        return drawn[0] if size is None else drawn
