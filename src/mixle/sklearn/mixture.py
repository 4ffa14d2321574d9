"""Mixtures as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mixle.sklearn.base import LAWS, Estimator, gaussian_estimator

__all__ = ["MixtureModel"]


class MixtureModel(ClusterMixin, Estimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Mixture fitted by EM, with the interface of `sklearn.mixture.GaussianMixture`.

    Arrays are fitted with Gaussian components; data frames, whose columns may be text, counts, dates or missing, with
    the families of their schema (`mixle.schema`).

    Parameters
    ----------
    n_components : int
        Number of components.
    law : {"auto", "diag", "full"} or Schema
        Law of a row in a component. ``"diag"`` and ``"full"``: a Gaussian with diagonal or full covariance, of numbers
        only. A `Schema`: its families, for frames. ``"auto"``: the inferred schema for a data frame, ``"diag"`` else.
    tol : float
        A fit has converged when an iteration gains less, in nats for each row.
    max_iter : int
        Most iterations of each start.
    n_init : int
        Number of starts; the best is kept.
    reg_covar : float
        Least variance of a Gaussian, for arrays.
    backend : str, optional
        Where the E-steps run: ``"local"``, ``"mp"``, or another that is registered. None is ``"mp"`` where `n_jobs`
        asks for several workers, else ``"local"``. The model has the same bits on each.
    n_jobs : int, optional
        Number of workers; -1 is one for each usable core.
    random_state : int, RandomState or None
        Source of the starts. Unlike elsewhere None is 0: fits are deterministic.
    warm_start : bool
        Whether a second `fit` starts from the model of the first.
    precision : {"float64", "float32"}
        What E-steps compute in; sums and all output per row are of float64.

    Attributes
    ----------
    model_ : MixtureDistribution
        The fitted model.
    schema_ : Schema or None
        Families of the columns, for a frame.
    weights_ : ndarray, shape (K,)
        Weights of the components.
    converged_ : bool
        Whether the best start converged.
    n_iter_ : int
        Its iterations.
    lower_bound_ : float
        Mean log-likelihood of a row.
    lower_bounds_ : ndarray, shape (iterations,)
        That after each iteration.
    labels_ : ndarray, shape (n,)
        Component of each fitted row.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, for a frame.

    Raises
    ------
    MissingPackage
        When the module is imported without scikit-learn.

    Examples
    --------
    >>> from mixle.sklearn import MixtureModel
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.3]])
    >>> model = MixtureModel(2).fit(X)
    >>> int((model.predict(X)[:3] == model.predict(X)[0]).sum()), model.converged_
    (3, True)
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        law: Any = "auto",
        tol: float = 1e-5,
        max_iter: int = 200,
        n_init: int = 1,
        reg_covar: float = 1e-6,
        backend: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        precision: str = "float64",
    ) -> None:
        self.n_components, self.law, self.tol, self.max_iter = n_components, law, tol, max_iter
        self.n_init, self.reg_covar, self.backend, self.n_jobs = n_init, reg_covar, backend, n_jobs
        self.random_state, self.warm_start, self.precision = random_state, warm_start, precision

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MixtureModel:
        """Fit the mixture.

        Parameters
        ----------
        X : array or data frame, shape (n, d)
            Rows.
        y : ignored
            Present by convention.
        sample_weight : array, shape (n,), optional
            A row of weight 2 counts as two rows.

        Returns
        -------
        MixtureModel
            Itself.
        """
        rows, estimator = self._opened(X)
        sample_weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if len(rows) < max(2, self.n_components):
            raise ValueError(
                f"n_samples={len(rows)} rows cannot be fitted by n_components={self.n_components}; "
                "at least 2 rows, and one for each component, are needed"
            )
        weight = float(len(rows)) if sample_weight is None else float(sample_weight.sum())
        self._fit(rows, estimator, len(rows), weight, sample_weight)
        self.labels_ = self._posterior(rows).argmax(axis=1)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> MixtureModel:
        """Go on with another batch of rows: one step of online EM.

        The first call draws the components from its batch, unless the model is fitted; batch t then replaces the share
        ``t ** -0.7`` of what was seen before (see `mixle.inference.streaming.StreamingEstimator`).

        Parameters
        ----------
        X : array or data frame, shape (n, d)
            The batch; the first one needs a row for each component.
        y : ignored
            Present by convention.

        Returns
        -------
        MixtureModel
            Itself. ``n_iter_`` counts the batches, ``lower_bound_`` is the mean log-density of the batch,
            ``converged_`` stays False, and ``labels_`` are those of the batch.
        """
        from mixle.inference.streaming import StreamingEstimator

        first = not hasattr(self, "model_")
        rows, estimator = self._opened(X) if first else (self._read(X), None)
        stream = getattr(self, "_stream", None)
        if stream is None:
            state = check_random_state(0 if self.random_state is None else self.random_state)
            if estimator is None:
                estimator = self._estimator()
            model = None if first else self.model_
            stream = StreamingEstimator(estimator, model=model, init_p=1.0, rng=state, precision=self.precision)
            self.lower_bounds_ = np.zeros(0)
        self.model_, self._stream = stream.update(rows), stream
        self.weights_, self.converged_, self.n_iter_ = np.asarray(self.model_.w), False, stream.step
        self.labels_ = self._posterior(rows).argmax(axis=1)
        self.lower_bound_ = float(self._densities(rows).mean())
        self.lower_bounds_ = np.append(self.lower_bounds_, self.lower_bound_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable component of each row.

        Parameters
        ----------
        X : array or data frame, shape (n, d)
            Rows.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each component for each row.

        Parameters
        ----------
        X
            Rows, as for `predict`.

        Returns
        -------
        ndarray, shape (n, K)
        """
        return self._posterior(self._read(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-density of each row in nats.

        Parameters
        ----------
        X
            Rows, as for `predict`.

        Returns
        -------
        ndarray, shape (n,)
        """
        return self._densities(self._read(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-density of the rows in nats.

        Parameters
        ----------
        X
            Rows, as for `predict`.
        y : ignored
            Present by convention.
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Draw rows.

        Parameters
        ----------
        n_samples : int
            Number of rows.

        Returns
        -------
        X : ndarray, shape (n_samples, d), or dict of columns
            The rows; for a model of a frame, its used columns.
        y : ndarray, shape (n_samples,)
            The component that each row was drawn from; ascending.

        Raises
        ------
        ValueError
            For fewer than one row.
        """
        rng = self._drawing(n_samples)
        counts = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        seeds = rng.randint(2**31 - 1, size=len(counts))
        drawn: list[Any] = []
        for law, count, seed in zip(self.model_.components, counts.tolist(), seeds.tolist(), strict=True):
            drawn += list(law.sampler(seed).sample(count)) if count else []
        labels = np.repeat(np.arange(len(counts)), counts)
        if self.schema_ is None:
            return np.array(drawn, dtype=float), labels
        return self.schema_.told(drawn), labels

    def aic(self, X: Any) -> float:
        """Return Akaike's criterion on the rows; less is better.

        Parameters
        ----------
        X
            Rows, as for `predict`.
        """
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self._free())

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion on the rows; less is better.

        Parameters
        ----------
        X
            Rows, as for `predict`.
        """
        scores = self.score_samples(X)
        return float(-2.0 * scores.sum() + self._free() * np.log(len(scores)))

    def _adopt(self) -> None:
        self.weights_, self._stream = np.asarray(self.model_.w), None

    def __sklearn_tags__(self) -> Any:
        return self._tags(self.law)

    def _opened(self, X: Any) -> tuple[Any, Any]:
        """Return the rows of the first fit and the estimator, after checking the parameters."""
        self._checked()
        if isinstance(self.law, str) and self.law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(LAWS)}, or a Schema; not {self.law!r}")
        from mixle.tables import Schema

        if not isinstance(self.law, (str, Schema)):
            raise TypeError(f"law is {self.law!r:.80}; pass one of {', '.join(LAWS)}, or a Schema: mixle.schema(frame)")
        rows = self._framed(X, self.law)
        if rows is None:
            rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        return rows, self._estimator()

    def _estimator(self) -> Any:
        from mixle.stats import MixtureEstimator

        if self.schema_ is not None:
            return self.schema_.estimator(self.n_components)
        return MixtureEstimator([gaussian_estimator(self.law, self.n_features_in_, self.reg_covar)] * self.n_components)

    def _read(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._columns(X, np.float64)

    def _densities(self, rows: Any) -> np.ndarray:
        return np.asarray(self.model_.seq_log_density(self.model_.dist_to_encoder().seq_encode(rows)))

    def _posterior(self, rows: Any) -> np.ndarray:
        if self.schema_ is not None:
            from mixle.tables.results import Fit

            return Fit(self.model_, self.schema_).predict_proba(rows)
        payload = self.model_.dist_to_encoder().seq_encode(rows)
        found = np.asarray(self.model_.seq_posterior(payload))
        lost = ~(found.sum(axis=1) > 0.0)
        found[lost] = self.weights_
        return found
