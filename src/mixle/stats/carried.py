"""The conjugate prior that a leaf's distribution carries, and hands on to its estimator."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

__all__ = ["CarriesPrior"]

E = TypeVar("E")


class CarriesPrior:
    """A distribution whose facts stand in a `Leaf`, and which may have a conjugate prior of its parameters."""

    leaf: Any
    _extras: ClassVar[tuple[str, ...]] = ("prior",)
    prior: Any = None
    name: str | None
    keys: Any

    def _finish(self, name: str | None, keys: Any, prior: Any = None) -> None:
        self.name, self.keys = name, keys
        if prior is not None:
            self.set_prior(prior)

    def get_prior(self) -> Any:
        """Return the conjugate prior of the parameters, or None; after a fit with a prior it is the posterior."""
        return self.prior

    def set_prior(self, prior: Any) -> None:
        """Set the conjugate prior of the parameters; None takes it away.

        Raises
        ------
        ValueError
            If it is not conjugate to this family, or has no mode.
        """
        from mixle.stats.priors import check_prior

        self.prior = check_prior(prior, self.leaf.name)

    def _weight(self, pseudo_count: float | None) -> float | None:
        """Return `pseudo_count`, or None where there is a prior: two priors do not go together."""
        return pseudo_count if self.prior is None else None

    def _under_prior(self, estimator: E) -> E:
        """Return an estimator of this law with the prior of this law."""
        if self.prior is not None:
            estimator.prior = self.prior  # type: ignore[attr-defined]  # every estimator of a leaf has one
        return estimator
