"""Student's t law of a vector: a multivariate normal with outliers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixle._limits import one_blas_thread
from mixle.errors import EmptyDataError
from mixle.stats.cholesky import cholesky
from mixle.stats.contract import DistributionSampler
from mixle.stats.covariance import symmetric, with_ridge, within_bounds
from mixle.stats.domains import dimension, nonnegative, parts_of, positive, shape_parameter, vector
from mixle.stats.families.student_t import expected_precision, log_student
from mixle.stats.kinds import MatrixRows, forward_square
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.scale_mixture import ReweightedLeaf, ReweightedSums
from mixle.stats.sums import Moments, merge_moments

__all__ = ["MultivariateStudentTDistribution", "MultivariateStudentTEstimator", "MultivariateStudentTSampler"]


class _MultivariateStudentT(MatrixRows, ReweightedLeaf):
    name: ClassVar[str] = "MultivariateStudentT"
    vector: ClassVar[bool] = True
    full: ClassVar[bool] = True

    def centre(self, dist: Any) -> np.ndarray:
        return np.asarray(dist.loc)

    def square(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the squared Mahalanobis distance of each row."""
        with np.errstate(over="ignore"):
            return forward_square(dist.chol, rows.x.T - dist.loc[:, None])

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        if not len(rows.x):
            return np.zeros(0)
        half_log_det = float(np.add.reduce(np.log(np.diagonal(dist.chol))))
        return log_student(self.square(dist, rows), dist.dof, dist.dim) - half_log_det

    def reweight(self, dist: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        u = (dist.dof + dist.dim) / (dist.dof + self.square(dist, rows))
        return u, expected_precision(u, dist.dof, dist.dim)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> ReweightedSums:
        if not len(rows.x):
            return self.zero()
        with one_blas_thread():
            return super().accumulate(rows, weights, dist)


class MultivariateStudentTDistribution(LeafDistribution):
    """Student's t distribution of a vector.

    The density is ``Γ((ν+d)/2) / (Γ(ν/2) (πν)^(d/2) |S|^½) · (1 + q/ν)^(−(ν+d)/2)`` with
    ``q = (x − loc)ᵀ S⁻¹ (x − loc)``.

    Parameters
    ----------
    dof : float
        Degrees of freedom ν, > 0.
    loc : array_like, shape (d,)
        Location.
    shape : array_like, shape (d, d)
        Shape matrix S, symmetric and positive definite; the covariance is ``S ν / (ν − 2)`` where ν > 2.
    name, keys
        Label and tying key.

    References
    ----------
    S. Kotz, S. Nadarajah, "Multivariate t Distributions and Their Applications", 2004.

    Examples
    --------
    >>> d = MultivariateStudentTDistribution(5.0, [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> round(d.log_density([0.0, 0.0]), 12)
    -1.837877066409
    """

    _fields = ("dof", "loc", "shape")

    def __init__(self, dof: float, loc: Any, shape: Any, name: str | None = None, keys: Any = None) -> None:
        self.dof = shape_parameter(dof, "dof of a MultivariateStudentT")
        self.loc = vector(loc, "loc of a MultivariateStudentT")
        self.dim = len(self.loc)
        self.shape = symmetric(shape, self.dim, "shape of a MultivariateStudentT")
        self.chol = cholesky(self.shape, "shape of a MultivariateStudentT")
        self.leaf = _MultivariateStudentT(self.dim)
        self._finish(name, keys)

    @property
    def mu(self) -> np.ndarray:
        """Return `loc`."""
        return self.loc

    def sampler(self, seed: int | None = None) -> MultivariateStudentTSampler:
        """Return a sampler."""
        return MultivariateStudentTSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> MultivariateStudentTEstimator:
        """Return the estimator, of these degrees of freedom; `pseudo_count` weighs location and shape as a prior."""
        prior = None if pseudo_count is None else (self.loc, self.shape)
        return MultivariateStudentTEstimator(
            self.dof, self.dim, pseudo_count, name=self.name, keys=self.keys, suff_stat=prior
        )


class MultivariateStudentTSampler(DistributionSampler):
    """Sampler of a `MultivariateStudentTDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an array of shape (d,), or of shape (size, d)."""
        dist, count = self.dist, 1 if size is None else size
        normal = self.rng.standard_normal((count, dist.dim)) @ dist.chol.T
        tau = np.maximum(self.rng.gamma(0.5 * dist.dof, 2.0 / dist.dof, size=count), np.finfo(float).tiny)
        drawn = dist.loc + normal / np.sqrt(tau)[:, None]
        return drawn[0] if size is None else drawn


class MultivariateStudentTEstimator(LeafEstimator):
    """Estimator of a `MultivariateStudentTDistribution`.

    Parameters
    ----------
    dof : float
        Degrees of freedom, fixed.
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    min_ridge : float
        Least variance of a column; a nearly singular shape gets a ridge besides.
    name, keys
        Label and tying key.
    suff_stat : (array_like, array_like), optional
        Prior location (d,) and shape (d, d).

    Notes
    -----
    Each round of EM weighs a row by ``(ν + d) / (ν + q)`` under the last model, as `StudentTEstimator` does; rows
    without a model give the fit by moments. Without data the law has location 0 and the identity for its shape.

    Examples
    --------
    >>> MultivariateStudentTEstimator(5.0, 2).estimate(None, (None, None, 0.0)).loc.tolist()
    [0.0, 0.0]
    """

    _keyword_fields = ("dof", "dim", "pseudo_count", "min_ridge", "name", "keys", "suff_stat")

    def __init__(
        self,
        dof: float = 5.0,
        dim: int | None = None,
        pseudo_count: float | None = None,
        min_ridge: float = 1e-12,
        name: str | None = None,
        keys: Any = None,
        suff_stat: Any = None,
    ) -> None:
        self.dof = positive(dof, "dof")
        self.suff_stat = None
        if suff_stat is not None:
            first, second = parts_of(suff_stat, "suff_stat", 2)
            loc = vector(first, "suff_stat")
            self.suff_stat = (loc, symmetric(second, len(loc), "suff_stat"))
        self.dim = len(self.suff_stat[0]) if dim is None and self.suff_stat is not None else dimension(dim)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.min_ridge = positive(min_ridge, "min_ridge")
        self.leaf = _MultivariateStudentT(self.dim)
        self.name, self.keys = name, keys

    @one_blas_thread()
    def _estimate(self, stat: ReweightedSums) -> MultivariateStudentTDistribution:
        count, moments = stat.count, stat.moments
        plain = stat.plain / count if count > 0.0 else 0.0
        shrink = 1.0 + plain * (((self.dof - 2.0) / self.dof if self.dof > 2.5 else 0.2) - 1.0)
        if self.pseudo_count and self.suff_stat is not None:
            loc, shape = self.suff_stat
            prior = Moments(self.pseudo_count, loc, np.zeros(len(loc)), self.pseudo_count * shape / shrink)
            moments, count = merge_moments(moments, prior), count + self.pseudo_count
        if not count > 0.0 or moments.weight == 0.0:
            if self.dim is None:
                raise EmptyDataError(
                    "MultivariateStudentT: without rows the dimension is unknown; "
                    "pass MultivariateStudentTEstimator(dim=...)"
                )
            return MultivariateStudentTDistribution(
                self.dof, np.zeros(self.dim), np.eye(self.dim), self.name, self.keys
            )
        loc, shape = np.asarray(moments.mean, float), within_bounds(np.array(moments.scatter * shrink / count))
        notes: tuple[str, ...] = ()
        low = np.diagonal(shape) < self.min_ridge
        if low.any():
            shape[low, :] = shape[:, low] = 0.0  # what is left of a constant column is rounding
            shape[np.diag_indices(len(loc))] = np.where(low, self.min_ridge, np.diagonal(shape))
            notes = ("MultivariateStudentT: a variance was raised to its floor",)
        shape, more = with_ridge(shape, "MultivariateStudentT")
        return repaired(MultivariateStudentTDistribution(self.dof, loc, shape, self.name, self.keys), *notes, *more)
