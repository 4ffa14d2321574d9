"""The loop of EM, written once; how a model is stepped and scored is its argument."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mixle.inference.progress import Progress
from mixle.inference.provenance import EMStep
from mixle.inference.stopping import Score, StopRule

__all__ = ["DocumentedSteps", "FusedSteps", "Loop", "Outcome", "Steps"]


Keep = Callable[["Outcome"], None]


class Steps(Protocol):
    """How the loop scores a model and steps from the model it scored last."""

    algorithm: str

    def score(self, model: Any, *, last: bool = False) -> Score:
        """Return the score of `model`; `last` promises that no step from it follows."""

    def step(self, model: Any) -> Any:
        """Return the next model after `model`, which was scored last."""

    def agree(self, value: Any) -> Any:
        """Return one `value` on all processes that run this loop; see `Handle.agree`."""


class FusedSteps:
    """One pass per iteration: the E-step that steps from a model also sums its log-density.

    Parameters
    ----------
    handle : Handle
        Encoded rows, ours.
    estimator : ParameterEstimator
        The M-step.
    penalty : callable
        Log-density of a model's parameters under the prior, added to every score.
    """

    algorithm = "fused-em"

    def __init__(self, handle: Any, estimator: Any, penalty: Callable[[Any], float]) -> None:
        self._handle, self._estimator, self._penalty = handle, estimator, penalty
        self._estep: Any = None
        self._left_out = 0

    def score(self, model: Any, *, last: bool = False) -> Score:
        """Return the score of `model`; keeps the statistic of the pass for `step`."""
        if last and not self._left_out:
            _, total = self._handle.pysp_seq_log_density_sum(model)
            if math.isfinite(total):
                return Score(float(total) + self._penalty(model))
        self._estep = None
        estep = self._handle.estep(self._estimator, model)
        self._estep, self._left_out = estep, int(estep.left_out)
        return _score_of(estep, self._handle, self._penalty(model))

    def step(self, model: Any) -> Any:
        """Return the M-step of the statistic that scoring `model` left."""
        estep, self._estep = self._estep, None
        return self._handle.m_step(self._estimator, estep, model)

    def agree(self, value: Any) -> Any:
        """Return one `value` on all processes that run this loop."""
        return self._handle.agree(value)


class DocumentedSteps:
    """Two passes per iteration through the documented methods: step, then score.

    Parameters
    ----------
    handle : EncodedFold
        Encoded rows, anybody's.
    estimator : ParameterEstimator
        The M-step.
    penalty : callable
        Log-density of a model's parameters under the prior, added to every score.
    """

    algorithm = "em"

    def __init__(self, handle: Any, estimator: Any, penalty: Callable[[Any], float]) -> None:
        self._handle, self._estimator, self._penalty = handle, estimator, penalty

    def score(self, model: Any, *, last: bool = False) -> Score:
        """Return the score of `model`, over the rows it supports where the handle can tell them."""
        _, total = self._handle.pysp_seq_log_density_sum(model)
        if total == -math.inf and callable(getattr(self._handle, "estep", None)):
            estep = self._handle.estep(self._estimator, model)
            if estep.left_out:
                return _score_of(estep, self._handle, self._penalty(model))
        return Score(float(total) + self._penalty(model))

    def step(self, model: Any) -> Any:
        """Return the next model after `model`."""
        return self._handle.pysp_seq_estimate(self._estimator, model)

    def agree(self, value: Any) -> Any:
        """Return one `value` on all processes that run this loop; a foreign handle runs in one."""
        agree = getattr(self._handle, "agree", None)
        return value if agree is None else agree(value)


def _score_of(estep: Any, handle: Any, penalty: float) -> Score:
    left_out = int(estep.left_out)
    if left_out and left_out >= getattr(handle, "counted", len(handle)):
        return Score(-math.inf, left_out)
    return Score(float(estep.log_density) + penalty, left_out)


@dataclass
class Outcome:
    """Where the loop ended.

    Attributes
    ----------
    model : object
        The model to return: the best one, or the last accepted one where no best is tracked. None if no model scored
        a finite number.
    score : Score
        Score of that model.
    validation : float or None
        Log-likelihood of that model on the validation data.
    start, last : Score
        Scores of the start and of the last accepted model.
    iterations, accepted : int
        Iterations that were run, and how many of them were accepted.
    gain : float
        Gain of the last iteration.
    stopped : str
        Why it ended, in the words of `FitProvenance.stopped`.
    reached : object
        The model that the next step starts from: the last accepted one.
    history : list of (float, float, bool)
        Objective, gain, and whether it was accepted, of each iteration.
    """

    model: Any
    score: Score
    validation: float | None
    start: Score
    last: Score
    iterations: int = 0
    accepted: int = 0
    gain: float = math.inf
    stopped: str = "max_its"
    reached: Any = None
    history: list[tuple[float, float, bool]] = field(default_factory=list)

    def offer(self, model: Any, score: Score, validation: float | None, *, best: bool) -> None:
        """Note an accepted model; keep it if nothing better is kept already."""
        self.reached, self.last = model, score
        self.accepted += 1
        if not best or self.model is None or self._better(score, validation):
            self.model, self.score, self.validation = model, score, validation

    def objectives(self) -> tuple[float, ...]:
        """Return the objective of the last accepted model after each iteration."""
        found, reached = [], self.start.objective
        for objective, _, accepted in self.history:
            reached = objective if accepted else reached
            found.append(reached)
        return tuple(found)

    def _better(self, score: Score, validation: float | None) -> bool:
        kept = self.validation
        if validation is None or kept is None or (math.isnan(validation) and math.isnan(kept)):
            return score.rank >= self.score.rank
        return validation >= kept or math.isnan(kept)


@dataclass(frozen=True)
class Loop:
    """Iterates until convergence, a rejected step, the cap, the time limit or an interrupt.

    Parameters
    ----------
    rule : StopRule
        Acceptance and convergence.
    max_its : int
        Cap on the iterations.
    track_best : bool
        Return the best accepted model instead of the last one.
    deadline : float or None
        Time of ``time.monotonic`` after which no further iteration begins.
    progress : Progress
        Where lines are written.
    on_step : callable or None
        Called with an `EMStep` after every iteration.
    validate : callable or None
        Log-likelihood of a model on validation data.
    """

    rule: StopRule
    max_its: int
    track_best: bool = True
    deadline: float | None = None
    progress: Progress = field(default_factory=Progress)
    on_step: Callable[[EMStep], Any] | None = None
    validate: Callable[[Any], float] | None = None

    def run(self, steps: Steps, model: Any, start: Score, keep: Keep | None = None) -> Outcome:
        """Iterate from `model`, which `steps` has just scored as `start`.

        An interrupt (Ctrl-C) ends the loop and keeps what was reached; before the first accepted step it is raised.

        Parameters
        ----------
        steps : Steps
            How to step and to score.
        model : distribution
            The start.
        start : Score
            Its score.
        keep : callable, optional
            Called with the outcome so far before the first iteration and after each, before it is reported.
        """
        outcome = Outcome(None, start, None, start, start, reached=model)
        return self._guarded(steps, outcome, keep, begins=True)

    def go_on(self, steps: Steps, outcome: Outcome, keep: Keep | None = None) -> Outcome:
        """Iterate from where an earlier loop stood, whose last accepted model `steps` has just scored."""
        return outcome if self.ended(outcome) else self._guarded(steps, outcome, keep, begins=False)

    def ended(self, outcome: Outcome) -> bool:
        """Return whether no iteration follows."""
        return outcome.stopped in {"converged", "rejected"} or outcome.iterations >= self.max_its

    def _guarded(self, steps: Steps, outcome: Outcome, keep: Keep | None, *, begins: bool) -> Outcome:
        try:
            if begins and outcome.start.finite:
                validation = steps.agree(self._validation(outcome.reached))
                outcome.offer(outcome.reached, outcome.start, validation, best=self.track_best)
                outcome.accepted = 0
            if begins and keep is not None:
                keep(outcome)
            self._iterate(steps, outcome, keep)
        except KeyboardInterrupt:
            if not outcome.accepted:
                raise
            outcome.stopped = "interrupted"
        return outcome

    def _iterate(self, steps: Steps, outcome: Outcome, keep: Keep | None) -> None:
        for iteration in range(outcome.iterations + 1, self.max_its + 1):
            model = steps.step(outcome.reached)
            score = steps.score(model, last=iteration == self.max_its)
            validation = self._validation(model) if score.finite else None
            late = self.deadline is not None and time.monotonic() >= self.deadline
            score, validation, late = steps.agree((score, validation, late))
            verdict = self.rule.judge(outcome.last, score)
            outcome.iterations, outcome.gain = iteration, verdict.gain
            outcome.history.append((score.objective, verdict.gain, verdict.accepted))
            if verdict.accepted:
                outcome.offer(model, score, validation, best=self.track_best)
            if verdict.converged or not verdict.accepted:
                outcome.stopped = "converged" if verdict.converged else "rejected"
            if keep is not None:
                keep(outcome)
            self.progress.step(iteration, score.objective, verdict, validation)
            if self.on_step is not None:
                self.on_step(EMStep(iteration, model, score.objective, verdict.gain))
            if self.ended(outcome):
                return
            if late:
                outcome.stopped = "max_seconds"
                return

    def _validation(self, model: Any) -> float | None:
        return None if self.validate is None else float(self.validate(model))
