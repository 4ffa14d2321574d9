"""`best_of`: several fits from independent starts."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from mixle.errors import InterruptWarning
from mixle.inference.checkpoint import trial_files
from mixle.inference.checkpoint_file import CheckpointFile
from mixle.inference.fitting import Fit, Fitted, NoObjective, warn_all
from mixle.inference.loop import Loop
from mixle.inference.options import check_cap, refuse_unbuilt, stream
from mixle.inference.resident import Encoding, Resident, opened
from mixle.inference.validation import validating

__all__ = ["best_of"]


def best_of(
    data: Any,
    vdata: Any,
    est: Any,
    trials: int,
    max_its: int,
    init_p: float,
    delta: float | None,
    rng: Any = None,
    init_estimator: Any = None,
    enc_data: Any = None,
    enc_vdata: Any = None,
    out: Any = None,
    print_iter: int | None = None,
    reuse_estep_ll: bool = True,
    objective: str = "auto",
    seed: int | None = None,
    fused_options: Any = None,
    weights: Any = None,
    checkpoint: Any = None,
    resume: bool = True,
    progress: Any = None,
    precision: Any = None,
) -> tuple[float, Any]:
    """Fit from several starts and return the best model with its score.

    The rows are encoded once and every trial uses the same encoded rows; the starts come from one random stream, so
    that trials differ also where neither `rng` nor `seed` is given.

    Parameters
    ----------
    data : rows, table, iterator or handle
        As for `optimize`; None if `enc_data` is given.
    vdata : rows or None
        Validation rows; trials are compared on them if given, else on the training rows.
    est : ParameterEstimator or distribution
        What to fit.
    trials, max_its : int
        Number of starts and cap on the iterations of each; at least 1 is used.
    init_p, delta, rng, init_estimator, enc_data, enc_vdata, out, print_iter, reuse_estep_ll, objective, seed, weights
        As for `optimize`; `out` also gets a line per trial.
    fused_options
        Accepted at None.
    checkpoint, resume
        As for `optimize`; trial `k` has the file ``checkpoint.trialk``. The same call goes on with the trial that was
        broken off.
    progress : bool, "always" or callable, optional
        As for `optimize`, over all trials.
    precision : {"float64", "float32"}, optional
        As for `optimize`.

    Returns
    -------
    score : float
        Log-likelihood of the model on the validation rows, else its objective on the training rows.
    model : distribution
        The best model.

    Raises
    ------
    ValueError
        As for `optimize`; a trial without a finite objective is passed over unless none has one.
    KeyboardInterrupt
        Before the first trial took a step. Later an interrupt ends the trials and the best model so far is returned.

    Examples
    --------
    >>> from mixle.inference import best_of
    >>> from mixle.stats import GaussianEstimator, MixtureEstimator
    >>> rows = [1.0, 1.2, 0.8, 5.0, 5.2, 4.8]
    >>> score, model = best_of(rows, None, MixtureEstimator([GaussianEstimator()] * 2), 3, 50, 0.5, 1e-9)
    >>> round(score, 3)
    -1.799
    """
    settings = dict(locals(), started=time.monotonic())
    refuse_unbuilt(None, precision, None, "auto", "full", fused_options)
    settings["max_its"] = max(1, check_cap("max_its", max_its, -(2**63)))
    settings["trials"] = trials = max(1, check_cap("trials", trials, -(2**63)))
    files = trial_files(checkpoint, resume, trials)
    state = stream(rng, seed)
    fit = Fit.checked(est, settings)
    how = Encoding.checked(settings)
    with (
        fit.loop.progress.showing(),
        opened(data, enc_data, fit.estimator, how, starter=fit.starter) as resident,
        validating(vdata, enc_vdata, fit.estimator, resident.encoder) as validate,
    ):
        loop = dataclasses.replace(fit.loop, validate=validate)
        best = _trials(fit, resident, state, files, loop, out)
    warn_all(best.messages)
    return best.score, best.model


def _trials(
    fit: Fit, resident: Resident, state: Any, files: list[CheckpointFile | None], loop: Loop, out: Any
) -> Fitted:
    best: Fitted | None = None
    failure: NoObjective | None = None
    for trial, file in enumerate(files, 1):
        score, interrupted = -math.inf, False
        try:
            fitted = fit.run(resident, state, loop=loop, file=file)
        except NoObjective as error:
            failure = error
        except KeyboardInterrupt:
            if best is None:
                raise
            interrupted = True
        else:
            score, interrupted = fitted.score, fitted.outcome.stopped == "interrupted"
            best = fitted if best is None or fitted.beats(best) else best
        if out is not None and not interrupted:
            loop.progress.write(f"Trial {trial}. VLL={score:f}\n")
        if interrupted and best is not None:
            if len(files) > 1:
                told = f"trial {trial} of {len(files)} was interrupted; the best model so far is returned"
                best.messages.append(InterruptWarning(told))
            break
    if best is None:
        raise failure or NoObjective("EM did not produce a finite objective")
    return best
