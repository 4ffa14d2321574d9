"""Output of one value per row: log-densities, responsibilities, the likeliest component.

It is computed where the rows live. A transport that has ``collection(task)`` keeps it there, in a collection of the
engine's own kind; from all others it comes back as one array in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.stats.refusals import check_models
from mixle.utils.parallel.folding.tasks import Apply, chunk_log_densities, row_log_densities

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Chunk, Shard
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["RowOutput", "assemble", "output_of", "placed_output"]

Rows = np.ndarray | list[np.ndarray]


def _posterior(model: Any, chunk: Chunk) -> Rows:
    found: Rows = model.seq_posterior(chunk.payload)
    return found


def _predict(model: Any, chunk: Chunk) -> Rows:
    paths = getattr(model, "seq_viterbi", None)
    if paths is not None:
        found: Rows = paths(chunk.payload)
        return found
    posterior = np.asarray(model.seq_posterior(chunk.payload))
    best: np.ndarray = posterior.reshape(len(posterior), -1).argmax(axis=1)
    if posterior.ndim == 2:
        return best
    return np.stack(np.unravel_index(best, posterior.shape[1:]), axis=1)  # one index for each half of the model


_KINDS: dict[str, Callable[[Any, Chunk], Rows]] = {
    "score_samples": row_log_densities,
    "posterior": _posterior,
    "predict": _predict,
}


def _order(shard: Shard) -> np.ndarray | None:
    """Return the permutation that brings the rows of the chunks into the order of the data; None if they are in it."""
    if len(shard.chunks) == 1:
        return None
    positions = np.concatenate([np.asarray(chunk.positions) for chunk in shard.chunks])
    return None if (positions[1:] > positions[:-1]).all() else np.argsort(positions)


def _join(pieces: Sequence[Rows], order: np.ndarray | None) -> Rows:
    if any(isinstance(piece, list) for piece in pieces):
        flat = [row for piece in pieces for row in piece]
        return flat if order is None else [flat[i] for i in order.tolist()]
    whole = np.asarray(pieces[0]) if len(pieces) == 1 else np.concatenate(pieces)
    return whole if order is None else whole[order]


def output_of(shard: Shard, kind: str, model: Any) -> Rows:
    """Return the output of a shard's rows, in their order: an array, or a list of one array for each sequence."""
    return _join([_KINDS[kind](model, chunk) for chunk in shard.chunks], _order(shard))


def placed_output(shard: Shard, kind: str, model: Any) -> tuple[np.ndarray, Rows]:
    """Return (positions in the data, output) of a shard's rows."""
    positions = np.concatenate([np.asarray(chunk.positions) for chunk in shard.chunks])
    return np.sort(positions), output_of(shard, kind, model)


def assemble(found: Sequence[tuple[np.ndarray, Rows]]) -> Rows:
    """Return the outputs of all shards in the order of the data.

    Examples
    --------
    >>> assemble([(np.array([0, 2]), np.array([0.0, 2.0])), (np.array([1]), np.array([1.0]))])
    array([0., 1., 2.])
    """
    if not found:
        return np.empty(0)
    positions = np.concatenate([places for places, _ in found])
    rising = bool((positions[1:] > positions[:-1]).all())
    return _join([output for _, output in found], None if rising else np.argsort(positions))


class RowOutput:
    """The calls of a handle that say something of each row."""

    transport: Transport
    _serving: Callable[[str], AbstractContextManager[None]]
    _run: Callable[[Task], list[Result]]

    def score_samples(self, model: Any) -> Any:
        """Return the log-density of each row in nats.

        Row weights take no part, here as in `predict` and `posterior`.

        Parameters
        ----------
        model : distribution
            Model to score.

        Returns
        -------
        ndarray of float64, shape (n,), or a collection of the engine
            An array is in the order of the rows. Spark gives a lazy RDD with the partitions of the encoded rows (one
            made of an RDD can be zipped with it), Dask an Array whose blocks are the shards, Ray a data set with one
            block for each shard; each is in the order of the shards, which is that of the rows where shards are
            contiguous, as the partitions of a collection are. No row comes to the driver.

        Raises
        ------
        TypeError
            For an object that is no model.
        TaskError
            If the model's own code fails; on Spark by the job that computes the RDD.

        Examples
        --------
        >>> from mixle.stats import GaussianDistribution, GaussianEstimator
        >>> from mixle.utils.parallel.planner import encoded_data
        >>> encoded_data([0.0, 1.0], GaussianEstimator(), num_shards=2).score_samples(GaussianDistribution(0.0, 1.0))
        array([-0.91893853, -1.41893853])
        """
        return self._each_row("score_samples", model)

    def posterior(self, model: Any) -> Any:
        """Return the probability of each component for each row.

        Parameters
        ----------
        model : distribution
            A mixture, or another model with ``seq_posterior``.

        Returns
        -------
        ndarray of float64, shape (n, K), or a collection of the engine
            As `score_samples`; zeros for a row that no component supports. Of a hidden Markov model one array of shape
            (T, S) for each sequence: a list, on Dask a Bag.

        Raises
        ------
        TypeError
            For a model without components.
        TaskError
            As `score_samples`.
        """
        _needs_components(model)
        return self._each_row("posterior", model)

    def predict(self, model: Any) -> Any:
        """Return the likeliest component of each row.

        Parameters
        ----------
        model : distribution
            As for `posterior`.

        Returns
        -------
        ndarray of int64, shape (n,), or a collection of the engine
            As `score_samples`; 0 for a row that no component supports. Of a hidden Markov model the likeliest path of
            each sequence, of a joint mixture a pair of components for each row, shape (n, 2).

        Raises
        ------
        TypeError, TaskError
            As `posterior`.
        """
        _needs_components(model)
        return self._each_row("predict", model)

    def _each_row(self, kind: str, model: Any) -> Any:
        check_models([model])
        with self._serving("apply"):
            keep = getattr(self.transport, "collection", None)
            if keep is not None:
                return keep(Apply(output_of, (kind, model)))
            return assemble([result.value for result in self._run(Apply(placed_output, (kind, model)))])

    def pysp_seq_log_density(self, estimate: Any) -> list[np.ndarray]:
        """Return the log-density of each row, one array per chunk, in the order of shards and their chunks.

        Parameters
        ----------
        estimate : distribution or sequence of distributions
            Model to score; of several, each chunk's array has shape (models, rows).

        Returns
        -------
        list of ndarray
            Row weights take no part. With one contiguous shard map the arrays are in the order of the rows.

        Raises
        ------
        TaskError
            As `pysp_seq_log_density_sum`.
        """
        check_models(estimate if isinstance(estimate, (list, tuple)) else [estimate])
        return [scores for shard in self.apply(chunk_log_densities, estimate) for scores in shard]

    def apply(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return ``function(shard, *args)`` of every shard, in shard order.

        Parameters
        ----------
        function : callable
            Takes a `Shard`; picklable where shards live in other processes.
        *args : Any
            Further arguments.
        """
        with self._serving("apply"):
            return [result.value for result in self._run(Apply(function, args))]


def _needs_components(model: Any) -> None:
    if not hasattr(model, "seq_posterior"):
        raise TypeError(
            f"a {type(model).__name__} has no components to choose from: ask score_samples, or fit a mixture"
        )
