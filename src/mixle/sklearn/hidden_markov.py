"""Hidden Markov models as scikit-learn estimators, with the arguments of hmmlearn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from mixle.sklearn.base import LAWS, Estimator, gaussian_estimator, is_frame, is_law
from mixle.sklearn.sequences import Sequences, lengths_meant, sizes_of, together

__all__ = ["HiddenMarkovModel"]


class HiddenMarkovModel(Estimator):
    """Hidden Markov model fitted by EM, used as those of hmmlearn are.

    Observations come as one array or data frame with the `lengths` of the sequences in it, or as a list of sequences;
    what is told of each observation comes back in the same form.

    Parameters
    ----------
    n_components : int
        Number of hidden states.
    emission : {"auto", "diag", "full"}, Schema or ParameterEstimator
        Law of an observation in a state. ``"diag"`` and ``"full"``: a Gaussian with diagonal or full covariance, of
        arrays of numbers. A `Schema`: its families, for data frames. An estimator: itself, for observations of any
        kind. ``"auto"``: the inferred schema for a data frame, ``"diag"`` for arrays, and the family that
        `mixle.inference.infer` chooses for lists of single values, labels or tuples.
    tol : float
        A fit has converged when an iteration gains less, in nats for each observation.
    max_iter, n_init, reg_covar
        As for `MixtureModel`.
    backend : str, optional
        Where the E-steps run, as for `MixtureModel`; sequences are spread, one is not divided.
    n_jobs : int, optional
        Number of workers; -1 is one for each usable core.
    random_state : int, RandomState or None
        Source of the starts. None is 0: fits are deterministic.
    warm_start : bool
        Whether a second `fit` starts from the model of the first.
    precision : {"float64", "float32"}
        Taken as by `MixtureModel`: hidden chains compute in float64 whatever it says.

    Attributes
    ----------
    model_ : HiddenMarkovModelDistribution
        The fitted model.
    startprob_ : ndarray, shape (S,)
        Probabilities of the first state.
    transmat_ : ndarray, shape (S, S)
        Probabilities of the next state, a row for each state.
    schema_ : Schema or None
        Families of the columns, for a frame.
    converged_ : bool
        Whether the best start converged.
    n_iter_ : int
        Its iterations.
    lower_bound_, lower_bounds_
        Mean log-likelihood of an observation, and that after each iteration.
    n_features_in_, feature_names_in_
        As for `MixtureModel`, of an array or frame.

    Raises
    ------
    MissingPackage
        When the module is imported without scikit-learn.

    Examples
    --------
    >>> from mixle.sklearn import HiddenMarkovModel
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2], [0.2], [5.1], [5.3], [0.0]])
    >>> model = HiddenMarkovModel(2).fit(X, lengths=[4, 4])
    >>> path = model.predict(X, lengths=[4, 4])
    >>> len(set(path[[0, 1, 4, 7]].tolist())), model.converged_
    (1, True)
    >>> words = HiddenMarkovModel(2).fit([["a", "a", "b"], ["b", "a"]])
    >>> [len(path) for path in words.predict([["a"], ["b", "b"]])]
    [1, 2]
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        emission: Any = "auto",
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
        self.n_components, self.emission, self.tol, self.max_iter = n_components, emission, tol, max_iter
        self.n_init, self.reg_covar, self.backend, self.n_jobs = n_init, reg_covar, backend, n_jobs
        self.random_state, self.warm_start, self.precision = random_state, warm_start, precision

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> HiddenMarkovModel:
        """Fit the model.

        Parameters
        ----------
        X : array or data frame, shape (n, d), or list of sequences
            Observations, sequence after sequence; a list may hold an array, a frame or values for each sequence.
        y : ignored
            Present by convention. In the place of `lengths`, as in ``fit(X, lengths)``, it is taken for them: whole
            numbers that sum to n, and are not as many.
        lengths : sequence of int, optional
            Lengths of the sequences in `X`; one sequence by default.

        Returns
        -------
        HiddenMarkovModel
            Itself.

        Raises
        ------
        ValueError
            For lengths that do not sum to n, and for fewer observations than states.
        """
        from mixle.stats import HiddenMarkovEstimator

        found = self._opened(X, lengths_meant(X, y, lengths))
        total = int(found.sizes.sum())
        if total < max(2, self.n_components):
            raise ValueError(
                f"n_samples={total} observations cannot be fitted by n_components={self.n_components}; "
                "at least 2, and one for each state, are needed"
            )
        estimator = HiddenMarkovEstimator([self._element] * self.n_components)
        self._fit(found.rows, estimator, total, float(total))
        return self

    def predict(self, X: Any, lengths: Any = None) -> Any:
        """Return the likeliest path of states (Viterbi).

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.

        Returns
        -------
        ndarray of int64, shape (n,), or list of such
            One array for an array or frame, one for each sequence of a list.
        """
        found = self._read(X, lengths)
        return found.result(self.model_.seq_viterbi(self._encoded(found)))

    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        """Return the probability of each state for each observation, given its whole sequence.

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.

        Returns
        -------
        ndarray, shape (n, S), or list of such
        """
        found = self._read(X, lengths)
        return found.result(self.model_.seq_posterior(self._encoded(found)))

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Return the log-likelihood of the sequences in nats: their sum, as hmmlearn does.

        Parameters
        ----------
        X, y, lengths
            As for `fit`.
        """
        found = self._read(X, lengths_meant(X, y, lengths))
        return float(np.sum(self.model_.seq_log_density(self._encoded(found))))

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, Any]:
        """Return the log-likelihood of the sequences and what `predict_proba` returns, as hmmlearn does.

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.
        """
        return self.score(X, lengths=lengths), self.predict_proba(X, lengths)

    def decode(self, X: Any, lengths: Any = None, algorithm: str = "viterbi") -> tuple[float, Any]:
        """Return a path of states and its log-likelihood together with the observations.

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.
        algorithm : {"viterbi", "map"}
            The likeliest path, or the likeliest state of each observation (a path that may be impossible).

        Returns
        -------
        log_prob : float
            Of the observations and the path, in nats, summed over the sequences.
        states : ndarray of int64, shape (n,), or list of such

        Raises
        ------
        ValueError
            For another algorithm.
        """
        if algorithm not in {"viterbi", "map"}:
            raise ValueError(f"algorithm must be 'viterbi' or 'map', not {algorithm!r}")
        found = self._read(X, lengths)
        payload = self._encoded(found)
        if algorithm == "viterbi":
            paths = self.model_.seq_viterbi(payload)
        else:
            paths = [np.asarray(part.argmax(axis=1)) for part in self.model_.seq_posterior(payload)]
        return self._joint(found, paths), found.result(paths)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw one sequence.

        Parameters
        ----------
        n_samples : int
            Its length.
        random_state : int, RandomState or None
            Source of the draws; that of the estimator by default.

        Returns
        -------
        X : ndarray, shape (n_samples, d), dict of columns, or list
            The observations, in the form that was fitted.
        states : ndarray, shape (n_samples,)
            The state of each.

        Raises
        ------
        ValueError
            For fewer than one observation.
        """
        rng = self._drawing(n_samples, random_state)
        sampler = self.model_.sampler(int(rng.randint(2**31 - 1)))
        (path,) = sampler.states_of(np.array([n_samples]))
        (drawn,) = sampler.elements_along([path])
        if self.schema_ is not None:
            return {field.name: [row[field.name] for row in drawn] for field in self.schema_.used}, path
        return (np.array(drawn).reshape(n_samples, -1) if self._form == "array" else drawn), path

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Return Akaike's criterion on the sequences; less is better.

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.
        """
        return -2.0 * self.score(X, lengths=lengths) + 2.0 * self._free()

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Return the Bayesian information criterion on the sequences, an observation being a case; less is better.

        Parameters
        ----------
        X, lengths
            Observations and the lengths of their sequences, as for `fit`.
        """
        total = int(self._read(X, lengths).sizes.sum())
        return -2.0 * self.score(X, lengths=lengths) + self._free() * float(np.log(total))

    def _adopt(self) -> None:
        self.startprob_, self.transmat_ = np.asarray(self.model_.w), np.asarray(self.model_.transitions)

    def __sklearn_tags__(self) -> Any:
        return self._tags(self.emission)

    def _opened(self, X: Any, lengths: Any) -> Sequences:
        """Return the sequences of a fit, and note their form and the estimator of an observation."""
        self._checked()
        if isinstance(self.emission, str) and self.emission not in LAWS:
            raise ValueError(f"emission must be one of {', '.join(LAWS)}, a Schema or an estimator: {self.emission!r}")
        if not isinstance(self.emission, str) and not is_law(self.emission):
            raise TypeError(
                f"emission is {self.emission!r:.80}; pass one of {', '.join(LAWS)}, a Schema or an estimator"
            )
        X, lengths, joined = together(X, lengths)
        self._flat = False
        self._framed(X, self.emission)
        if self.schema_ is not None:
            self._form, self._element = "frame", self.schema_.estimator()
        elif isinstance(X, list):
            self._form, self._element = "list", self._chosen(X)
        else:
            self._form = "array"
            width = validate_data(self, X, dtype=self._dtype(), ensure_min_samples=2).shape[1]
            if isinstance(self.emission, str):
                self._element = gaussian_estimator(self.emission, width, self.reg_covar)
            else:
                self._element = self.emission
                encoder = self.emission.accumulator_factory().make().acc_to_encoder()
                self._flat = width == 1 and getattr(encoder, "row_form", "value") == "value"
        return self._cut(X, lengths, joined)

    def _chosen(self, sequences: list[Any]) -> Any:
        from mixle.inference import infer

        if not isinstance(self.emission, str):
            return self.emission
        if self.emission != "auto":
            raise ValueError(
                f"emission={self.emission!r} is a law of arrays: pass X of shape (n, d) with lengths=, or "
                "emission='auto' for lists of single values"
            )
        return infer(list(itertools.chain.from_iterable(sequences))).estimator

    def _dtype(self) -> Any:
        return np.float64 if isinstance(self.emission, str) else None

    def _read(self, X: Any, lengths: Any) -> Sequences:
        check_is_fitted(self)
        X, lengths, joined = together(X, lengths)
        form = "list" if isinstance(X, list) else "frame" if is_frame(X) and self.schema_ is not None else "array"
        if form != self._form:
            raise ValueError(f"X is of the form {form}, the model was fitted to the form {self._form}; pass it so")
        return self._cut(X, lengths, joined)

    def _cut(self, X: Any, lengths: Any, joined: bool) -> Sequences:
        if self._form == "list":
            return Sequences(X, np.array([len(row) for row in X]), joined)
        laid = self._columns(X, self._dtype())
        if self._flat:
            laid = laid[:, 0]
        sizes = sizes_of(lengths, len(laid))
        ends = np.cumsum(sizes).tolist()
        return Sequences([laid[a:b] for a, b in zip([0, *ends], ends, strict=False)], sizes, joined)

    def _encoded(self, found: Sequences) -> Any:
        return self.model_.dist_to_encoder().seq_encode(found.rows)

    def _joint(self, found: Sequences, paths: list[np.ndarray]) -> float:
        log_start, log_moves = self.model_.log_w, self.model_.log_transitions
        total = sum(float(log_start[path[0]] + log_moves[path[:-1], path[1:]].sum()) for path in paths if len(path))
        elements = list(itertools.chain.from_iterable(found.rows))
        states = np.concatenate([*paths, np.zeros(0, np.int64)])
        for k, law in enumerate(self.model_.emissions):
            mine = [elements[i] for i in np.flatnonzero(states == k).tolist()]
            if mine:
                total += float(np.sum(law.seq_log_density(law.dist_to_encoder().seq_encode(mine))))
        return total
