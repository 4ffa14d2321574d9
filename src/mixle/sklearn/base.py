"""What the estimators share: pools, fits, and what a fit tells."""

from __future__ import annotations

import numbers
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mixle import errors

if TYPE_CHECKING:
    from mixle.tables.schemas import Schema

__all__ = ["LAWS", "Estimator", "gaussian_estimator", "is_frame", "is_law"]

#: Names of the laws of a row.
LAWS = ("auto", "diag", "full")


class Estimator(DensityMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Base of the estimators: fits on the pool that the parameters ask for."""

    def _fit(self, rows: Any, estimator: Any, units: int, weight: float, weights: Any = None) -> None:
        """Fit, and set the attributes that tell how; `units` observations make up `rows`, of this `weight`."""
        model, interrupted = self._optimised(rows, estimator, units, weights)
        told = model.fit_provenance()
        self.model_ = model
        self.converged_, self.n_iter_ = told.stopped == "converged", max(1, told.iterations)
        self.lower_bound_ = float(told.final_objective) / weight
        self.lower_bounds_ = np.array(told.objectives or [told.final_objective]) / weight
        self._adopt()
        if interrupted:  # a search or a validation over many fits has to end
            raise KeyboardInterrupt
        if not self.converged_:
            warnings.warn(
                f"EM had not converged after {self.n_iter_} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _adopt(self) -> None:
        """Set the attributes that are parts of ``model_``."""

    def _optimised(self, rows: Any, estimator: Any, units: int, weights: Any) -> tuple[Any, bool]:
        """Return the fitted model, and whether an interrupt ended the fit."""
        from mixle.inference import best_of, optimize
        from mixle.inference.selecting import START_ROWS, shards_for
        from mixle.utils.parallel.planner import encoded_data

        backend, pool = self._pool()
        if weights is not None:
            pool["weights"] = weights
        if self.precision != "float64":
            pool["precision"] = self.precision
        delta, init_p = self.tol * units, 1.0 if len(rows) <= START_ROWS else 0.1
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        previous = getattr(self, "model_", None) if self.warm_start else None
        shards = min(len(rows), shards_for(units))
        with (
            warnings.catch_warnings(record=True) as caught,
            encoded_data(rows, estimator, backend=backend, num_shards=shards, **pool) as handle,
        ):
            warnings.simplefilter("always", errors.ConvergenceWarning)
            if previous is not None:
                model = optimize(
                    None, estimator, max_its=self.max_iter, delta=delta, prev_estimate=previous, enc_data=handle
                )
            else:
                how = (self.n_init, self.max_iter, init_p, delta, rng)
                _, model = best_of(None, None, estimator, *how, enc_data=handle)
        for item in caught:
            if not issubclass(item.category, errors.ConvergenceWarning):  # those are told by scikit-learn's own
                warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
        return model, any(issubclass(item.category, errors.InterruptWarning) for item in caught)

    def _checked(self) -> None:
        """Refuse parameters that no fit can have, by their names here."""
        for name in ("n_components", "max_iter", "n_init"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r:.80}")
        for name, least in (("tol", "above 0"), ("reg_covar", "of at least 0")):
            value = getattr(self, name)
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not real or not 0.0 <= float(value) < np.inf or (value == 0 and least == "above 0"):
                raise ValueError(f"{name} must be a finite number {least}, not {value!r:.80}")
        jobs = self.n_jobs
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, numbers.Integral) or jobs == 0):
            raise ValueError(f"n_jobs must be a whole number other than 0, or None, not {jobs!r:.80}")

    def _pool(self) -> tuple[str, dict[str, Any]]:
        from mixle.utils.parallel.planning.discover import usable_cpus

        workers = self.n_jobs
        if workers is not None and workers < 0:
            workers = max(1, usable_cpus() + 1 + workers)
        backend = self.backend or ("mp" if workers is not None and workers > 1 else "local")
        return backend, {} if workers is None or backend == "local" else {"num_workers": workers}

    def _framed(self, X: Any, law: Any) -> Any:
        """Return the rows of a frame by the schema that `law` is or that is inferred; None where `law` is of arrays.

        Notes ``schema_``, and the names of the columns.
        """
        from mixle.tables import Schema, schema

        self.schema_: Schema | None = None
        if not (isinstance(law, Schema) or (law == "auto" and is_frame(X))):
            return None
        self.schema_ = law if isinstance(law, Schema) else schema(X)
        read = self.schema_.read(X)  # before scikit-learn's checks, as it names what is wrong with a column
        validate_data(self, X, skip_check_array=True)
        return read

    def _columns(self, X: Any, kind: Any) -> Any:
        """Return the rows of an array or a frame of the form that was fitted."""
        if self.schema_ is None:
            return validate_data(self, X, dtype=kind, reset=False)
        validate_data(self, X, skip_check_array=True, reset=False)
        named = getattr(self, "feature_names_in_", None)
        if named is not None and isinstance(X, np.ndarray):  # scikit-learn has warned, and goes by position
            X = dict(zip(named.tolist(), X.T, strict=True))
        return self.schema_.read(X)

    def _drawing(self, count: int, state: Any = None) -> Any:
        """Return the source of `count` draws: `state`, or that of the estimator."""
        check_is_fitted(self)
        if count < 1:
            raise ValueError(f"n_samples must be at least 1, not {count}")
        chosen = self.random_state if state is None else state
        return check_random_state(0 if chosen is None else chosen)

    def _tags(self, law: Any) -> Any:
        """Return the tags of an estimator of what `law` can read."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not isinstance(law, str)
        tags.input_tags.string = law == "auto" or not isinstance(law, str)
        return tags

    def _free(self) -> int:
        from mixle.stats.counting import free_parameters

        return free_parameters(self.model_)


def gaussian_estimator(law: str, width: int, floor: float) -> Any:
    """Return the estimator of a Gaussian of `width` columns: full where `law` says so, else diagonal."""
    from mixle.stats import DiagonalGaussianEstimator, MultivariateGaussianEstimator

    return (MultivariateGaussianEstimator if law == "full" else DiagonalGaussianEstimator)(width, min_covar=floor)


def is_law(law: Any) -> bool:
    """Return whether `law` can be the law of a row: an estimator or a schema."""
    return callable(getattr(law, "accumulator_factory", None)) or callable(getattr(law, "estimator", None))


def is_frame(X: Any) -> bool:
    """Return whether `X` has named columns."""
    return hasattr(X, "columns") and not isinstance(X, np.ndarray)
