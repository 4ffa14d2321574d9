"""What a fitted model says of rows: components, scores, criteria."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mixle.errors import ContractError
from mixle.inference.resident import rows_for
from mixle.stats.counting import free_parameters
from mixle.utils.parallel.folding.encoders import encoder_of_model
from mixle.utils.parallel.folding.protocol import is_encoded_data_handle

__all__ = ["aic", "bic", "encoded_parts", "icl", "posterior", "predict", "score"]

#: Rows that are encoded at a time, so that memory does not grow with the table.
BLOCK = 65536


def encoded_parts(model: Any, data: Any, fields: Any = None) -> Iterator[Any]:
    """Yield the encoded rows of `data`, `BLOCK` at a time.

    Parameters
    ----------
    model : distribution
        Its encoder.
    data : rows or table
        As for `optimize`.
    fields : sequence, optional
        Columns of a table to take.
    """
    encoder = encoder_of_model("the model of these rows", model)
    rows = rows_for(data, encoder, fields)
    for start in range(0, len(rows), BLOCK):
        yield encoder.seq_encode(rows[start : start + BLOCK])


def posterior(model: Any, data: Any) -> Any:
    """Return the probability of each component, or of each state, for rows.

    Parameters
    ----------
    model : distribution
        A mixture or a hidden Markov model.
    data : rows or table
        As for `optimize`.

    Returns
    -------
    ndarray, shape (n, K), or list of ndarray
        Zeros for a row that no component supports. Of a hidden Markov model one array (T, S) for each sequence.

    Raises
    ------
    ContractError
        For a model without components.

    Examples
    --------
    >>> from mixle.inference import posterior
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> model = MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)], [0.5, 0.5])
    >>> posterior(model, [0, 4, 12]).round(3).tolist()
    [[1.0, 0.0], [0.312, 0.688], [0.0, 1.0]]
    """
    if not callable(getattr(model, "seq_posterior", None)):
        raise ContractError(f"a {_name(model)} has no components; pass a mixture or a hidden Markov model")
    parts = [model.seq_posterior(part) for part in encoded_parts(model, data)]
    return [one for part in parts for one in part] if isinstance(parts[0], list) else np.concatenate(parts)


def predict(model: Any, data: Any) -> Any:
    """Return the most probable component of each row, or the likeliest path of states of each sequence.

    Parameters
    ----------
    model, data
        As for `posterior`.

    Returns
    -------
    ndarray of int64, shape (n,), or list of ndarray
        -1 for a row that no component supports. Of a hidden Markov model one Viterbi path for each sequence.

    Raises
    ------
    ContractError
        For a model without components.

    Examples
    --------
    >>> from mixle.inference import predict
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> model = MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)], [0.5, 0.5])
    >>> predict(model, [0, 4, 12]).tolist()
    [0, 1, 1]
    """
    if callable(getattr(model, "seq_viterbi", None)):
        return [path for part in encoded_parts(model, data) for path in model.seq_viterbi(part)]
    found = posterior(model, data)
    return np.where(found.sum(axis=1) > 0.0, found.argmax(axis=1), -1)


def score(model: Any, data: Any) -> float:
    """Return the mean log-density of rows in nats; minus infinity if one of them is impossible.

    Parameters
    ----------
    model : distribution
        Any model.
    data : rows, table or handle
        A handle of `encoded_data` is scored on its pool.

    Examples
    --------
    >>> from mixle.inference import score
    >>> from mixle.stats import PoissonDistribution
    >>> round(score(PoissonDistribution(2.0), [1, 2, 3]), 4)
    -1.442
    """
    weight, total, _ = _totals(model, data)
    return total / weight


def aic(model: Any, data: Any) -> float:
    """Return Akaike's criterion, −2 × log-likelihood + 2 × free parameters; less is better.

    Parameters
    ----------
    model : distribution
        Any model.
    data : rows, table or handle
        A handle of `encoded_data` is scored on its pool.

    Notes
    -----
    Akaike (1974), IEEE Transactions on Automatic Control 19.

    Examples
    --------
    >>> from mixle.inference import aic
    >>> from mixle.stats import PoissonDistribution
    >>> round(aic(PoissonDistribution(2.0), [1, 2, 3]), 4)
    10.652
    """
    return -2.0 * _totals(model, data)[1] + 2.0 * free_parameters(model)


def bic(model: Any, data: Any) -> float:
    """Return the Bayesian information criterion, −2 × log-likelihood + free parameters × log n; less is better.

    Parameters
    ----------
    model : distribution
        Any model.
    data : rows, table or handle
        A handle of `encoded_data` is scored on its pool. n is the weight of the rows.

    Notes
    -----
    Schwarz (1978), The Annals of Statistics 6.

    Examples
    --------
    >>> from mixle.inference import bic
    >>> from mixle.stats import PoissonDistribution
    >>> round(bic(PoissonDistribution(2.0), [1, 2, 3]), 4)
    9.7507
    """
    weight, total, _ = _totals(model, data)
    return -2.0 * total + free_parameters(model) * math.log(weight)


def icl(model: Any, data: Any) -> float:
    """Return the integrated completed likelihood: `bic` plus twice the entropy of the components; less is better.

    It asks for components that are apart, where `bic` asks for a density.

    Parameters
    ----------
    model : distribution
        A mixture, or a model with ``seq_posterior``.
    data : rows or table
        As for `optimize`.

    Raises
    ------
    ContractError
        For a model without components, and for a handle, whose rows are elsewhere.

    Notes
    -----
    Biernacki, Celeux and Govaert (2000), IEEE Transactions on Pattern Analysis and Machine Intelligence 22.

    Examples
    --------
    >>> from mixle.inference import bic, icl
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> model = MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)], [0.5, 0.5])
    >>> round(icl(model, [0, 4, 12]) - bic(model, [0, 4, 12]), 4)
    1.2481
    """
    if is_encoded_data_handle(data):
        raise ContractError("icl looks at the components of each row; pass the rows themselves, not a handle")
    return bic(model, data) + 2.0 * entropy(posterior(model, data))


def entropy(found: Any) -> float:
    """Return the summed entropy in nats of what `posterior` returned."""
    r = np.concatenate(found) if isinstance(found, list) else found
    kept = r[r > 0.0]
    return float(-np.sum(kept * np.log(kept)))


def _totals(model: Any, data: Any) -> tuple[float, float, int]:
    """Return the weight of the rows, their log-likelihood, and their number."""
    if is_encoded_data_handle(data):
        weight, total = data.pysp_seq_log_density_sum(model)
        return float(weight), float(total), len(data)
    sums, rows = [], 0
    for part in encoded_parts(model, data):
        densities = np.asarray(model.seq_log_density(part), float)
        sums.append(float(densities.sum()))
        rows += len(densities)
    return float(rows), math.fsum(sums) if np.isfinite(sums).all() else float(np.sum(sums)), rows


def _name(model: Any) -> str:
    return type(model).__name__.removesuffix("Distribution")
