"""What estimators of sequences share whose elements follow states or topics: parts, and how a start seeds them."""

from __future__ import annotations

from typing import Any, ClassVar

from mixle.stats.contract import Column, ParameterEstimator
from mixle.stats.latent.hmm_start import Start

__all__ = ["SequenceModelEstimator"]


class SequenceModelEstimator(ParameterEstimator):
    """Estimator of a law of sequences with one estimator for each state or topic, and one for the length."""

    estimators: list[Any]
    len_estimator: Any
    #: What the law of an element is called in keys and messages.
    part: ClassVar[str] = "topic"

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        parts = tuple((f"{self.part} {k}", estimator) for k, estimator in enumerate(self.estimators))
        return (*parts, ("length", self.len_estimator))

    @property
    def num_components(self) -> int:
        """Return the number of states or topics."""
        return len(self.estimators)

    @property
    def least_start_rows(self) -> int:
        """Return 1: a single sequence may show all of them."""
        return 1

    def num_start_components(self) -> int:
        """Return how many centres a start seeds."""
        return len(self.estimators)

    def seed_start(self, columns: list[Column], rng: Any) -> Any:
        """Return what `start` of the accumulators takes for centres, seeded on the columns of sampled sequences."""
        return Start.seeded(self.estimators, columns, rng)
