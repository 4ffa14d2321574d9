"""Laws of parameters: what a conjugate prior is written in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import mapping_of, positive
from mixle.stats.refusals import shown
from mixle.stats.serialize import Serializable

__all__ = [
    "DictDirichletDistribution",
    "NormalGammaDistribution",
    "NormalInverseWishartDistribution",
    "NormalWishartDistribution",
    "SymmetricDirichletDistribution",
]


def _numbers(value: Any, what: str, least: float = -math.inf) -> Any:
    """Return a float, or a read-only vector, of finite numbers above `least`."""
    array = np.array(value, float)
    if array.ndim > 1 or not np.isfinite(array).all() or not (array > least).all():
        raise ValueError(
            f"{what} must be finite{'' if least == -math.inf else f' and above {least:g}'}, is {shown(value)}"
        )
    array.setflags(write=False)
    return float(array) if array.ndim == 0 else array


class NormalGammaDistribution(Serializable):
    """Law of a mean and a precision: the precision τ is Gamma(a, rate b), the mean given τ normal(mu, 1 / (lam τ)).

    ``bᵃ / Γ(a) τ^(a−1) exp(−bτ) · √(lam τ / 2π) exp(−lam τ (m − mu)² / 2)``

    Parameters
    ----------
    mu : float or array_like, shape (d,)
        Mean of the mean; a vector for d independent columns.
    lam : float or array_like
        Rows that the prior mean is worth, > 0.
    a, b : float or array_like
        Shape (above 1/2, so that there is a mode) and rate of the precision.
    name : str, optional
        Label carried along.

    References
    ----------
    M. H. DeGroot, "Optimal Statistical Decisions", 1970.

    Examples
    --------
    >>> NormalGammaDistribution(0.0, 1.0, 2.0, 3.0).log_density((0.0, 1.0))
    -1.721713955868453
    """

    _fields: ClassVar[tuple[str, ...]] = ("mu", "lam", "a", "b")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, mu: Any, lam: Any, a: Any, b: Any, name: str | None = None) -> None:
        self.mu, self.lam = _numbers(mu, "mu of a NormalGamma"), _numbers(lam, "lam of a NormalGamma", 0.0)
        self.a, self.b = _numbers(a, "a of a NormalGamma", 0.5), _numbers(b, "b of a NormalGamma", 0.0)
        self.name = name

    def log_density(self, x: tuple[Any, Any]) -> float:
        """Return the log-density of (mean, precision), summed over columns."""
        mean, precision = np.asarray(x[0], float), np.asarray(x[1], float)
        lgamma = np.vectorize(math.lgamma, otypes=[float])
        gamma = self.a * np.log(self.b) - lgamma(self.a) + (self.a - 1.0) * np.log(precision) - self.b * precision
        spread = self.lam * precision
        normal = 0.5 * np.log(spread / (2.0 * math.pi)) - 0.5 * spread * np.square(mean - self.mu)
        return math.fsum(np.ravel(gamma + normal).tolist())


class _Wishart(Serializable):
    """What both laws of a mean vector and a covariance share."""

    matrix: ClassVar[str]
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, mu: Any, kappa: float, matrix: Any, nu: float, name: str | None = None) -> None:
        kind = type(self).__name__.removesuffix("Distribution")
        self.mu = np.atleast_1d(_numbers(mu, f"mu of a {kind}"))
        self.kappa, self.nu = positive(kappa, f"kappa of a {kind}"), positive(nu, f"nu of a {kind}")
        d, given = len(self.mu), np.array(matrix, float)
        if given.shape != (d, d) or not np.allclose(given, given.T):
            raise ValueError(f"{self.matrix} of a {kind} must be a symmetric matrix of shape {(d, d)}")
        if self.nu <= d - (self.matrix == "psi"):
            raise ValueError(
                f"nu of a {kind} of {d} entries must be above {d - (self.matrix == 'psi')}, is {shown(nu)}"
            )
        try:
            np.linalg.cholesky(given)
        except np.linalg.LinAlgError:
            raise ValueError(f"{self.matrix} of a {kind} must be positive definite") from None
        given.setflags(write=False)
        setattr(self, self.matrix, given)
        self.name = name

    def _multigamma(self) -> float:
        d = len(self.mu)
        return 0.25 * d * (d - 1) * math.log(math.pi) + math.fsum(math.lgamma(0.5 * (self.nu - j)) for j in range(d))

    def _normal(self, mean: Any, precision: np.ndarray) -> float:
        y = np.asarray(mean, float) - self.mu
        constant = len(y) * math.log(self.kappa / (2.0 * math.pi)) + _log_det(precision)
        return 0.5 * (constant - self.kappa * float(y @ precision @ y))


def _log_det(matrix: np.ndarray) -> float:
    return 2.0 * math.fsum(np.log(np.diagonal(np.linalg.cholesky(matrix))).tolist())


class NormalWishartDistribution(_Wishart):
    """Law of a mean vector and a precision matrix: Λ is Wishart(w_mat, nu), the mean given Λ normal(mu, (kappa Λ)⁻¹).

    Proportional to ``|Λ|^((nu−d)/2) exp(−tr(W⁻¹Λ) / 2 − kappa (m − mu)ᵀ Λ (m − mu) / 2)``.

    Parameters
    ----------
    mu : array_like, shape (d,)
        Mean of the mean.
    kappa : float
        Rows that the prior mean is worth, > 0.
    w_mat : array_like, shape (d, d)
        Scale of the precision, positive definite.
    nu : float
        Degrees of freedom, above d, so that there is a mode.
    name : str, optional
        Label carried along.

    References
    ----------
    M. H. DeGroot, "Optimal Statistical Decisions", 1970.

    Examples
    --------
    >>> round(NormalWishartDistribution([0.0], 1.0, [[0.5]], 2.0).log_density(([0.0], [[1.0]])), 12)
    -1.918938533205
    """

    matrix: ClassVar[str] = "w_mat"
    _fields: ClassVar[tuple[str, ...]] = ("mu", "kappa", "w_mat", "nu")
    w_mat: np.ndarray

    def __init__(self, mu: Any, kappa: float, w_mat: Any, nu: float, name: str | None = None) -> None:
        super().__init__(mu, kappa, w_mat, nu, name)

    def log_density(self, x: tuple[Any, Any]) -> float:
        """Return the log-density of (mean, precision matrix)."""
        precision, d = np.asarray(x[1], float), len(self.mu)
        wishart = 0.5 * (self.nu - d - 1.0) * _log_det(precision)
        wishart -= 0.5 * float(np.trace(np.linalg.solve(self.w_mat, precision)))
        wishart -= 0.5 * self.nu * (d * math.log(2.0) + _log_det(self.w_mat)) + self._multigamma()
        return float(wishart + self._normal(x[0], precision))


class NormalInverseWishartDistribution(_Wishart):
    """Law of a mean vector and a covariance: Σ is inverse Wishart(psi, nu), the mean given Σ normal(mu, Σ / kappa).

    Proportional to ``|Σ|^(−(nu+d+2)/2) exp(−tr(ΨΣ⁻¹) / 2 − kappa (m − mu)ᵀ Σ⁻¹ (m − mu) / 2)``.

    Parameters
    ----------
    mu : array_like, shape (d,)
        Mean of the mean.
    kappa : float
        Rows that the prior mean is worth, > 0.
    psi : array_like, shape (d, d)
        Scale of the covariance, positive definite.
    nu : float
        Degrees of freedom, above d - 1.
    name : str, optional
        Label carried along.

    References
    ----------
    A. Gelman, J. B. Carlin, H. S. Stern, D. B. Dunson, A. Vehtari, D. B. Rubin, "Bayesian Data Analysis", 2013.

    Examples
    --------
    >>> round(NormalInverseWishartDistribution([0.0], 1.0, [[2.0]], 2.0).log_density(([0.0], [[1.0]])), 12)
    -1.918938533205
    """

    matrix: ClassVar[str] = "psi"
    _fields: ClassVar[tuple[str, ...]] = ("mu", "kappa", "psi", "nu")
    psi: np.ndarray

    def __init__(self, mu: Any, kappa: float, psi: Any, nu: float, name: str | None = None) -> None:
        super().__init__(mu, kappa, psi, nu, name)

    def log_density(self, x: tuple[Any, Any]) -> float:
        """Return the log-density of (mean, covariance)."""
        covar, d = np.asarray(x[1], float), len(self.mu)
        inverse = np.linalg.inv(covar)
        wishart = 0.5 * self.nu * (_log_det(self.psi) - d * math.log(2.0)) - self._multigamma()
        wishart -= 0.5 * (self.nu + d + 1.0) * _log_det(covar) + 0.5 * float(np.trace(self.psi @ inverse))
        return float(wishart + self._normal(x[0], inverse))


class DictDirichletDistribution(Serializable):
    """Law of the probabilities of labels, ``Γ(Σα) / ΠΓ(α_l) · Π p_l^(α_l−1)``.

    Parameters
    ----------
    alpha : dict
        Concentration of each label, at least 1 so that there is a mode: 1 plus the number of rows the prior is worth.
    name : str, optional
        Label carried along.

    References
    ----------
    S. Kotz, N. Balakrishnan, N. L. Johnson, "Continuous Multivariate Distributions" 1, 2000.

    Examples
    --------
    >>> round(DictDirichletDistribution({"a": 2.0, "b": 3.0}).log_density({"a": 0.5, "b": 0.5}), 12)
    0.405465108108
    """

    _fields: ClassVar[tuple[str, ...]] = ("alpha",)
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, alpha: Mapping[Any, float], name: str | None = None) -> None:
        given = mapping_of(alpha, "alpha of a DictDirichlet", "concentrations")
        self.alpha = {label: concentration(a, "alpha of a DictDirichlet") for label, a in given.items()}
        if not self.alpha:
            raise ValueError("alpha of a DictDirichlet lists no label; give {label: concentration, ...}")
        self.name = name

    def log_density(self, x: Mapping[Any, float]) -> float:
        """Return the log-density of the probabilities of the labels."""
        return dirichlet_log_density(list(self.alpha.values()), [x.get(label, 0.0) for label in self.alpha])


class SymmetricDirichletDistribution(Serializable):
    """Law of k probabilities of one concentration, ``Γ(kα) / Γ(α)ᵏ · Π pⱼ^(α−1)``.

    Parameters
    ----------
    alpha : float
        The concentration, at least 1 so that there is a mode.
    dim : int, optional
        Number of probabilities; by default that of the law it is a prior of.
    name : str, optional
        Label carried along.

    References
    ----------
    I. J. Good, "The Estimation of Probabilities: An Essay on Modern Bayesian Methods", 1965.

    Examples
    --------
    >>> round(SymmetricDirichletDistribution(2.0).log_density([0.5, 0.5]), 12)
    0.405465108108
    """

    _fields: ClassVar[tuple[str, ...]] = ("alpha",)
    _keyword_fields: ClassVar[tuple[str, ...]] = ("dim", "name")

    def __init__(self, alpha: float, dim: int | None = None, name: str | None = None) -> None:
        self.alpha = concentration(alpha, "alpha of a SymmetricDirichlet")
        self.dim, self.name = None if dim is None else int(dim), name

    def log_density(self, x: Any) -> float:
        """Return the log-density of probabilities, shape (k,)."""
        values = np.ravel(np.asarray(x, float)).tolist()
        return dirichlet_log_density([self.alpha] * len(values), values)


def concentration(value: Any, what: str) -> float:
    """Return a concentration as a float ≥ 1."""
    number = positive(value, what)
    if number < 1.0:
        raise ValueError(f"{what} must be at least 1, is {shown(value)}: below it the likeliest probability is 0")
    return number


def dirichlet_log_density(alpha: list[float], p: list[float]) -> float:
    """Return the log-density of probabilities `p` under Dirichlet(`alpha`); a concentration of 1 takes any."""
    terms = [(a - 1.0) * (math.log(x) if x > 0.0 else -math.inf) for a, x in zip(alpha, p, strict=True) if a != 1.0]
    if any(term == -math.inf for term in terms):
        return -math.inf
    return math.lgamma(math.fsum(alpha)) - math.fsum(map(math.lgamma, alpha)) + math.fsum(terms)
