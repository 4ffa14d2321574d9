"""Invertible functions of one number, with the logarithm of the slope of their inverses."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mixle.errors import TransformCompatibilityError
from mixle.stats.domains import finite
from mixle.stats.serialize import Serializable

__all__ = [
    "AffineTransform",
    "ExpTransform",
    "FunctionTransform",
    "IdentityTransform",
    "LogTransform",
    "LogitTransform",
    "PowerTransform",
    "Transform",
    "transform_named",
]


class Transform(Serializable):
    """An invertible function ``y = f(x)`` of numbers; x has the law of the child, y is what is observed.

    A transform of your own derives from this class, names its arguments in ``_fields``, and is made known to files
    with `mixle.stats.register_model`.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, TransformDistribution
    >>> round(TransformDistribution(GaussianDistribution(0.0, 1.0), "exp").log_density(1.0), 12)
    -0.918938533205
    """

    #: Whether f is defined for x > 0 only.
    positive: ClassVar[bool] = False

    @abstractmethod
    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return y = f(x), shape (n,)."""

    @abstractmethod
    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return x, shape (n,); NaN where no x gives y."""

    @abstractmethod
    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return ``log |dx / dy|``, shape (n,)."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return id(type(self))

    def __repr__(self) -> str:
        return super().__repr__() if self._fields else f"{type(self).__name__}()"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data from which `from_dict` builds an equal transform."""
        return super().to_dict() if self._fields else {"type": type(self).__name__, "schema": 1}


class IdentityTransform(Transform):
    """``y = x``.

    Examples
    --------
    >>> IdentityTransform().inverse(np.array([2.0])).tolist()
    [2.0]
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return x."""
        return x

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return y."""
        return y

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return 0."""
        return np.zeros(len(y))


class AffineTransform(Transform):
    """``y = loc + scale · x``.

    Parameters
    ----------
    loc : float
        What x = 0 becomes.
    scale : float
        Slope, not 0.

    Examples
    --------
    >>> AffineTransform(32.0, 1.8).forward(np.array([100.0])).tolist()
    [212.0]
    """

    _fields = ("loc", "scale")

    def __init__(self, loc: float = 0.0, scale: float = 1.0) -> None:
        self.loc, self.scale = finite(loc, "loc of an AffineTransform"), finite(scale, "scale of an AffineTransform")
        if self.scale == 0.0:
            raise ValueError("scale of an AffineTransform must not be 0")

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return loc + scale · x."""
        return np.asarray(self.loc + self.scale * x)

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return (y − loc) / scale."""
        return np.asarray((y - self.loc) / self.scale)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return ``−log |scale|``."""
        return np.full(len(y), -math.log(abs(self.scale)))


class ExpTransform(Transform):
    """``y = exp(x)``: y > 0.

    Examples
    --------
    >>> ExpTransform().inverse(np.array([1.0, -1.0])).tolist()
    [0.0, nan]
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return exp(x)."""
        return np.asarray(np.exp(x))

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return log y, NaN where y ≤ 0."""
        return _inside(y > 0.0, np.log, y)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return −log y."""
        return np.asarray(-np.log(y))


class LogTransform(Transform):
    """``y = log x``, x > 0.

    Examples
    --------
    >>> LogTransform().inverse(np.array([0.0])).tolist()
    [1.0]
    """

    positive: ClassVar[bool] = True

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return log x."""
        return np.asarray(np.log(x))

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return exp(y), NaN where it is no finite number above 0."""
        return _inside(np.abs(y) < 700.0, np.exp, y)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return y."""
        return y


class LogitTransform(Transform):
    """``y = 1 / (1 + exp(−x))``: 0 < y < 1; x is the log-odds of y.

    Examples
    --------
    >>> LogitTransform().inverse(np.array([0.5, 1.0])).tolist()
    [0.0, nan]
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return 1 / (1 + exp(−x))."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -x)))

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return log y − log(1 − y), NaN outside of 0 < y < 1."""
        return _inside((y > 0.0) & (y < 1.0), lambda v: np.log(v) - np.log1p(-v), y)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return −log y − log(1 − y)."""
        return np.asarray(-np.log(y) - np.log1p(-y))


class PowerTransform(Transform):
    """``y = x ** power``, x > 0.

    Parameters
    ----------
    power : float
        Not 0; 0.5 is the square root.

    Examples
    --------
    >>> PowerTransform(0.5).inverse(np.array([3.0])).round(12).tolist()
    [9.0]
    """

    _fields = ("power",)
    positive: ClassVar[bool] = True

    def __init__(self, power: float) -> None:
        self.power = finite(power, "power of a PowerTransform")
        if self.power == 0.0:
            raise ValueError("power of a PowerTransform must not be 0")

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return x ** power."""
        return np.asarray(np.power(x, self.power))

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return y ** (1 / power), NaN where y ≤ 0."""
        return _inside(y > 0.0, lambda v: np.power(v, 1.0 / self.power), y)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return ``(1 / power − 1) log y − log |power|``."""
        return np.asarray((1.0 / self.power - 1.0) * np.log(y) - math.log(abs(self.power)))


class FunctionTransform(Transform):
    """A transform of three functions of your own.

    Parameters
    ----------
    forward_function, inverse_function : callable
        y of x and x of y, array to array, shape (n,); the inverse gives NaN where no x gives y.
    log_slope_function : callable
        ``log |dx / dy|`` of y.

    Notes
    -----
    It is written to a file after `mixle.stats.register_function` of all three.

    Examples
    --------
    >>> cube = FunctionTransform(lambda x: x**3, np.cbrt, lambda y: -np.log(3.0) - 2.0 * np.log(np.abs(np.cbrt(y))))
    >>> cube.inverse(np.array([-8.0])).tolist()
    [-2.0]
    """

    _fields = ("forward_function", "inverse_function", "log_slope_function")

    def __init__(
        self,
        forward_function: Callable[[np.ndarray], np.ndarray],
        inverse_function: Callable[[np.ndarray], np.ndarray],
        log_slope_function: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.forward_function, self.inverse_function = forward_function, inverse_function
        self.log_slope_function = log_slope_function

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the first function's y."""
        return np.asarray(self.forward_function(x), float)

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Return the second function's x."""
        return np.asarray(self.inverse_function(y), float)

    def log_abs_det_inverse_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return the third function's log-slope."""
        return np.asarray(self.log_slope_function(y), float)


def _inside(inside: np.ndarray, function: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> np.ndarray:
    """Return the function where `inside` is true, NaN elsewhere and where it is not finite."""
    result = np.full(len(y), np.nan)
    with np.errstate(over="ignore"):
        result[inside] = function(y[inside])
    result[np.isinf(result)] = np.nan
    return result


_NAMED: dict[str, Callable[[], Transform]] = {
    "exp": ExpTransform,
    "identity": IdentityTransform,
    "log": LogTransform,
    "logit": LogitTransform,
    "sqrt": lambda: PowerTransform(0.5),
    "square": lambda: PowerTransform(2.0),
}


def transform_named(given: Any) -> Any:
    """Return a transform: None is the identity, a name one of "exp", "identity", "log", "logit", "sqrt", "square".

    Raises
    ------
    TransformCompatibilityError
        If `given` is neither a name nor has the methods of a `Transform`.

    Examples
    --------
    >>> transform_named("exp"), transform_named("sqrt")
    (ExpTransform(), PowerTransform(0.5))
    """
    if given is None:
        return IdentityTransform()
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    if all(callable(getattr(given, name, None)) for name in ("forward", "inverse", "log_abs_det_inverse_jacobian")):
        return given
    raise TransformCompatibilityError(
        f"{given!r:.80} is no transform; pass one of {', '.join(sorted(_NAMED))}, AffineTransform(loc, scale), or "
        "FunctionTransform(forward, inverse, log_slope) with functions of your own"
    )
