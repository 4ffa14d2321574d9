"""`optimize`: fit a model by EM."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mixle.inference.checkpoint import checkpoint_file
from mixle.inference.fitting import Fit, warn_all
from mixle.inference.inferring import inferred_for
from mixle.inference.options import refuse_unbuilt, stream
from mixle.inference.provenance import EMStep
from mixle.inference.resident import Encoding, opened
from mixle.inference.validation import validating

__all__ = ["optimize"]


def optimize(
    data: Any,
    estimator: Any = None,
    max_its: int = 10,
    delta: float | None = 1e-9,
    init_estimator: Any = None,
    init_p: float = 0.1,
    rng: Any = None,
    prev_estimate: Any = None,
    vdata: Any = None,
    enc_data: Any = None,
    enc_vdata: Any = None,
    out: Any = None,
    print_iter: int | None = None,
    num_chunks: int = 1,
    engine: Any = None,
    precision: Any = None,
    fields: Any = None,
    resources: Any = None,
    placement: Any = None,
    sub_chunks: int = 1,
    chunk_size: int | None = None,
    backend: str = "local",
    num_workers: int | None = None,
    client: Any = None,
    comm: Any = None,
    root: int = 0,
    root_only: bool = False,
    strategy: Any = None,
    reuse_estep_ll: bool = True,
    objective: str = "auto",
    on_step: Callable[[EMStep], Any] | None = None,
    structure: str = "auto",
    schedule: str = "full",
    monotone: bool | None = None,
    track_best: bool | None = None,
    seed: int | None = None,
    fused_options: Any = None,
    max_seconds: float | None = None,
    weights: Any = None,
    num_shards: Any = None,
    checkpoint: Any = None,
    resume: bool = True,
    tol: float | None = None,
    progress: Any = None,
) -> Any:
    """Fit a model to rows by EM.

    From a start, each iteration takes one EM step and is accepted if it does not lower the objective. The loop ends
    when an accepted gain is below `delta`, at a rejected step, at `max_its`, at `max_seconds`, or at an interrupt.
    Where the encoded rows allow it one pass over the data serves both the step and the score.

    Parameters
    ----------
    data : rows, table, iterator or handle
        Lists, tuples and arrays are rows; iterators are read to their end; mappings of columns, structured arrays,
        data frames and series become rows by position. None if `enc_data` is given.
    estimator : ParameterEstimator or distribution
        What to fit. None takes that of `prev_estimate`, or infers one from the rows as `infer` does: what was chosen
        and why is written to `out`, logged, and kept in ``model.fit_provenance().inferred``.
    max_its : int
        Cap on the iterations, at least 1.
    delta : float or None
        Threshold of the gain, above 0. None runs to the cap.
    init_estimator : ParameterEstimator or distribution, optional
        Family of the start, if another one.
    init_p : float
        Share of the rows a start reads, in (0, 1]; it reads eight for each component at least.
    rng : RandomState, Generator or int, optional
        Source of the start. None means `seed`, or 0: fits are deterministic.
    prev_estimate : distribution, optional
        The start; nothing is drawn then.
    vdata : rows, optional
        Validation rows; the model that scores best on them is returned.
    enc_data, enc_vdata : handle or list of (count, payload), optional
        Encoded rows instead of rows. A handle that is handed in is left open.
    out : object, optional
        Gets one line per reported iteration through ``write``. None is silent.
    print_iter : int, optional
        Report every `print_iter`-th iteration and the converged one, 0 the converged one only; without `out` on
        standard output.
    num_chunks : int
        Number of shards, consecutive rows each.
    engine : optional
        None or numpy.
    precision : {"float64", "float32"}, optional
        What the E-steps compute in: "float32" takes the blocks of a mixture of stacked components in float32 and adds
        them up in float64; all else is computed in float64. Float64 by default.
    fields : sequence, optional
        Columns of a table to take, in this order.
    resources, placement, sub_chunks, num_workers, client, comm, root, root_only
        Passed on to `encoded_data`.
    chunk_size : int, optional
        Rows per chunk; an alternative to `num_chunks`.
    backend : str
        Where the rows are encoded and the E-steps run. The handle made for it is closed before this returns.
    strategy : {None, "em", "squarem"}
        ``"squarem"`` extrapolates from every three E-steps and takes back what gains less than plain EM: many fewer
        iterations where EM is slow (components that overlap), about the same where it is fast.
    structure, schedule, fused_options
        Accepted at their defaults; there is one way to compute a fit.
    reuse_estep_ll : bool
        False scores every model in a pass of its own.
    objective : {"auto", "mle", "map", "vb"}
        ``"map"`` and ``"vb"`` add the log-density of the parameters under the estimator's prior; ``"auto"`` does so
        where there is a prior.
    on_step : callable, optional
        Called with an `EMStep` after every iteration.
    monotone : bool, optional
        False accepts every finite step; by default steps may not lower the objective, but for an estimator (or a part
        of it) that says ``ascends = False``.
    track_best : bool, optional
        False returns the last accepted model instead of the best.
    seed : int, optional
        An alternative to `rng`.
    max_seconds : float, optional
        No iteration begins after this wall-clock time; the fit then depends on the clock.
    weights : array_like, shape (n,), optional
        Row weights: a row of weight 2 counts as two rows.
    num_shards : int or shard map, optional
        How rows are cut into shards, on which the bits depend: an int is ``Strided(K)``. By default the process
        backend has one shard per worker, so the bits depend on their number; with `num_shards` they do not.
    checkpoint : str or path-like, optional
        File to which the fit is written after each iteration, with the one before in ``checkpoint.previous``. A killed
        fit is gone on from by the same call, on any backend and any number of workers, and ends with the bits of an
        unbroken one. The file stays; a finished fit is returned at once, or goes on if `max_its` was raised.
    resume : bool
        False refuses a `checkpoint` that exists: it is neither used nor lost. Without a file a fit begins either way.
    tol : float, optional
        Threshold of the gain relative to the size of the objective, beside `delta`: a fit of ten times the rows stops
        at the same digits.
    progress : bool, "always" or callable, optional
        True keeps one line on standard error up to date while the fit runs: iteration, objective, gain, rows per
        second, time, time left. It is silent unless that is a terminal or a notebook; ``"always"`` also writes to a
        file or a pipe, a line a second. A callable is given a `FitStatus`, ten times a second at most, the first and
        the last one in any case. `on_step` gets every iteration.

    Returns
    -------
    distribution
        The fitted model; ``model.fit_provenance()`` tells how it was fitted.

    Raises
    ------
    ValueError
        For an argument outside its domain, for data without rows ("received no observations"), for more components
        than rows, and where no model scored a finite number ("did not produce a finite objective").
    SchemaError
        (a ValueError) where no estimator can be inferred; see `infer`.
    TypeError
        For `rng` together with `seed`, or a `prev_estimate` that cannot encode rows.
    CheckpointError
        (a ValueError) if `checkpoint` is of another fit, naming the difference, if neither it nor the one before is
        whole, and for rows without a digest.
    SerializationError
        (a ValueError) for a model without JSON, if there is a `checkpoint`.
    KeyboardInterrupt
        Before the first accepted step. Later an interrupt ends the fit with a warning, and the model reached so far is
        returned.

    Warns
    -----
    ConvergenceWarning
        (a UserWarning) if the cap ended an unconverged fit, or a step was rejected although ``delta`` is None.
    RepairWarning
        (a UserWarning) if rows were left out because no component supports them.
    UserWarning
        Once if `checkpoint` cannot be written: the fit goes on. If `checkpoint` is torn and the one before it is used.

    Notes
    -----
    A gain below 8 ε times the size of the objective is rounding: it neither rejects a step nor delays convergence. In
    float32 it is below 2^-21.
    EM: A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
    J. R. Stat. Soc. B 39 (1977).

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator, MixtureEstimator
    >>> rows = [1.0, 1.2, 0.8, 5.0, 5.2, 4.8]
    >>> model = optimize(rows, MixtureEstimator([GaussianEstimator()] * 2), max_its=100)
    >>> sorted(round(component.mu, 3) for component in model.components)
    [1.0, 5.0]
    >>> model.fit_provenance().converged
    True
    >>> guessed = optimize([("tea", 2.0), ("coffee", 9.5), ("tea", 2.25)])
    >>> print(guessed.fit_provenance().inferred)
    part  family       why
    0     Categorical  text with 2 different values
    1     Gaussian     numbers 2 to 9.5
    (3 rows)
    """
    settings = dict(locals(), started=time.monotonic())
    refuse_unbuilt(engine, precision, strategy, structure, schedule, fused_options)
    file, state = checkpoint_file(checkpoint, resume), stream(rng, seed)
    data, inferred = inferred_for(data, settings)
    fit = Fit.checked(estimator, settings, previous=prev_estimate, inferred=inferred)
    how, starter = Encoding.checked(settings), fit.starter if prev_estimate is None else None
    with (
        fit.loop.progress.showing(),
        opened(data, enc_data, fit.estimator, how, model=prev_estimate, starter=starter) as resident,
        validating(vdata, enc_vdata, fit.estimator, resident.encoder, fields) as validate,
    ):
        fitted = fit.run(resident, state, previous=prev_estimate, loop=replace(fit.loop, validate=validate), file=file)
    warn_all(fitted.messages)
    return fitted.model
