"""What a fit tells about itself: one record per step, one record attached to the fitted model."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

__all__ = ["EMStep", "FitProvenance", "attach"]


class EMStep(NamedTuple):
    """One iteration of EM, as `on_step` is given it.

    Attributes
    ----------
    iter : int
        Number of the iteration, from 1.
    model : object
        The model this iteration proposes. A step that lowered the objective, or made it not finite, ends the fit and
        its model is not returned; `delta` tells.
    log_density : float
        Objective of that model: the summed log-density of the data, penalised for ``objective="map"`` and ``"vb"``.
    delta : float
        Gain over the iteration before.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator
    >>> steps: list[EMStep] = []
    >>> model = optimize([1.0, 2.0, 3.0], GaussianEstimator(), out=None, on_step=steps.append)
    >>> steps[0].iter, steps[0].model.mu
    (1, 2.0)
    """

    iter: int
    model: Any
    log_density: float
    delta: float


class FitProvenance(NamedTuple):
    """How a model was fitted; ``model.fit_provenance()`` returns it.

    Attributes
    ----------
    algorithm : str
        ``"fused-em"``: one pass over the data per iteration; ``"em"``: a step, then a score; ``"squarem"``: one pass,
        every third statistic extrapolated.
    estimator : str
        Class of the estimator.
    objective : str
        ``"mle"``, ``"map"`` or ``"vb"``.
    iterations : int
        Iterations that were run, a rejected last one included.
    max_iterations : int
        The cap.
    converged : bool
        Whether the last accepted gain was below the threshold.
    delta : float or None
        The threshold.
    final_objective : float
        Objective of the model that carries this record.
    objective_gain : float or None
        Gain of the last accepted step, 0 if none was accepted; None if the step came from no finite objective.
    n_observations : int or None
        Rows; None for a handle that was passed in.
    repairs : tuple of str
        Everything that was repaired on the way: floors, ridges, rows left out, a start drawn again.
    seed : int or None
        The seed that was given.
    last_accepted_objective : float
        Objective after the last accepted step; differs from `final_objective` where an earlier model was better.
    stopped : str
        Why the loop ended: ``"converged"``, ``"max_its"``, ``"rejected"``, ``"max_seconds"`` or ``"interrupted"``.
    left_out : int
        Rows that no component of the final model supports.
    inferred : str
        What `infer` chose and why, where the fit got no estimator; else empty.
    objectives : tuple of float
        Objective of the last accepted model after each iteration.
    precision : str
        What the E-steps computed in: "float64", or "float32" where that holds the digits.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator
    >>> told = optimize([1.0, 2.0, 3.0], GaussianEstimator(), out=None).fit_provenance()
    >>> told.estimator, told.converged, told.n_observations
    ('GaussianEstimator', True, 3)
    """

    algorithm: str
    estimator: str
    objective: str
    iterations: int
    max_iterations: int
    converged: bool
    delta: float | None
    final_objective: float
    objective_gain: float | None
    n_observations: int | None
    repairs: tuple[str, ...]
    seed: int | None
    last_accepted_objective: float
    stopped: str = "converged"
    left_out: int = 0
    inferred: str = ""
    objectives: tuple[float, ...] = ()
    precision: str = "float64"


def attach(model: Any, provenance: FitProvenance, *, owner: Any = None) -> Any:
    """Return `model` carrying `provenance`; a copy if it is `owner`, an object that belongs to the caller.

    A model whose class leaves no room for it (slots) is returned as it is.
    """
    if model is owner:
        model = copy.copy(model)
    try:
        object.__setattr__(model, "_fit_provenance", provenance)
    except (AttributeError, TypeError):
        return model
    return model
