"""One fit over encoded rows: draw a start, run the loop, report."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from mixle._log import note
from mixle.errors import ConvergenceWarning, EmptyDataError, InterruptWarning, MixleWarning, RepairWarning, SupportError
from mixle.inference.checkpoint import Record
from mixle.inference.checkpoint_file import CheckpointFile
from mixle.inference.inferring import Inferred
from mixle.inference.loop import DocumentedSteps, FusedSteps, Loop, Outcome, Steps
from mixle.inference.options import (
    as_estimator,
    check_callable,
    check_cap,
    check_delta,
    check_positive,
    choose_objective,
    penalty_of,
    validate_keys,
)
from mixle.inference.progress import Progress, live_of
from mixle.inference.provenance import FitProvenance, attach
from mixle.inference.resident import Resident
from mixle.inference.squarem import SquaremSteps
from mixle.inference.stopping import Score, StopRule, ascends
from mixle.utils.parallel.folding.inputs import check_precision, check_probability

__all__ = ["Fit", "Fitted", "NoObjective", "warn_all"]


class NoObjective(EmptyDataError):
    """No model of a fit scored a finite number."""


@dataclass
class Fitted:
    """A finished fit.

    Attributes
    ----------
    model : distribution
        The model, carrying its provenance.
    outcome : Outcome
        Where the loop ended.
    messages : list of MixleWarning
        What the caller should be warned of.
    """

    model: Any
    outcome: Outcome
    messages: list[MixleWarning] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Log-likelihood on the validation data if there are any, else the objective."""
        validation = self.outcome.validation
        return self.outcome.score.objective if validation is None else validation

    def beats(self, other: Fitted) -> bool:
        """Whether this fit is better; fits that explain different numbers of rows are ranked by that first."""
        if self.outcome.validation is None:
            return self.outcome.score.rank > other.outcome.score.rank
        return self.score > other.score or (math.isnan(other.score) and not math.isnan(self.score))


@dataclass(frozen=True)
class Fit:
    """The checked settings of a fit; make it with `Fit.checked`.

    Attributes
    ----------
    estimator, starter : ParameterEstimator
        The M-step, and the family of the start.
    init_p : float
        Share of rows a start reads.
    objective : str
        ``"mle"``, ``"map"`` or ``"vb"``.
    loop : Loop
        The loop's settings.
    fused : bool
        Whether one pass per iteration may be used.
    seed : int or None
        For the record.
    strategy : str
        ``"em"``, or ``"squarem"`` to extrapolate.
    inferred : str
        How the estimator was inferred from the rows.
    """

    estimator: Any
    starter: Any
    init_p: float
    objective: str
    loop: Loop
    fused: bool = True
    seed: Any = None
    strategy: str = "em"
    inferred: str = ""

    @classmethod
    def checked(
        cls, estimator: Any, settings: dict[str, Any], *, previous: Any = None, inferred: Inferred | None = None
    ) -> Fit:
        """Return the settings of a fit after checking each of them.

        Parameters
        ----------
        estimator : ParameterEstimator or distribution
            The M-step.
        settings : dict
            Arguments of `optimize` by name.
        previous : distribution, optional
            The previous model.
        inferred : Inferred, optional
            What stands in for an estimator.

        Raises
        ------
        ValueError
            Naming the argument, what it may be and what it is.
        """
        chosen = as_estimator(estimator if inferred is None else inferred.estimator, previous)
        validate_keys(chosen)
        init = settings.get("init_estimator")
        starter = chosen if init is None else as_estimator(init)
        objective = choose_objective(settings.get("objective", "auto"), chosen)
        print_iter = settings.get("print_iter")
        if print_iter is not None:
            print_iter = check_cap("print_iter", print_iter, 0)
        tol = check_positive("tol", settings.get("tol"))
        wanted = settings.get("monotone")
        steady = ascends(chosen) if wanted is None else wanted is not False
        rule = StopRule(
            check_delta(settings["delta"]), steady, tol, check_precision("a fit", settings.get("precision"))
        )
        cap, deadline = check_cap("max_its", settings["max_its"], 1), _deadline(settings)
        live = live_of(settings, rule, deadline)
        loop = Loop(
            rule,
            cap,
            track_best=settings.get("track_best") is not False,
            deadline=deadline,
            progress=Progress.choose(settings.get("out"), print_iter, penalised=objective != "mle", live=live),
            on_step=check_callable("on_step", settings.get("on_step"), "a function of an EMStep"),
        )
        init_p = check_probability(settings["init_p"], "init_p")
        fused, strategy = bool(settings.get("reuse_estep_ll", True)), settings.get("strategy") or "em"
        if strategy != "em" and settings.get("checkpoint") is not None:
            raise ValueError(
                f"strategy={strategy!r} steps from statistics that a checkpoint does not hold: leave one out"
            )
        if strategy != "em" and not fused:
            raise ValueError(f"strategy={strategy!r} steps from the pass that scores: leave reuse_estep_ll out")
        told = "" if inferred is None else str(inferred)
        return cls(chosen, starter, init_p, objective, loop, fused, settings.get("seed"), strategy, told)

    def run(
        self,
        resident: Resident,
        state: Any,
        *,
        previous: Any = None,
        loop: Loop | None = None,
        file: CheckpointFile | None = None,
    ) -> Fitted:
        """Fit the rows of `resident` from `previous`, or from a start drawn with `state`; go on from `file`.

        Raises
        ------
        NoObjective
            (a ValueError) if no model scored a finite number.
        CheckpointError
            If `file` is of another fit.
        """
        steps, loop = self._steps(resident.handle), self.loop if loop is None else loop
        precision = getattr(resident.handle, "precision", "float64")
        loop = replace(loop, rule=replace(loop.rule, precision=precision))
        notes: list[str] = []
        speaks = getattr(resident.handle, "is_root", True)  # of the ranks of an MPI job one prints and keeps files
        loop = loop if speaks else replace(loop, progress=Progress())
        if self.inferred and speaks:
            loop.progress.write(f"{self.inferred}\n")
            note("info", "inference", f"inferred from the rows:\n{self.inferred}")
        record = None if file is None else Record(file, self, loop, resident.handle, state, previous)
        outcome = None if record is None else steps.agree(record.load(notes) if speaks else None)
        if outcome is None:
            outcome = self._begin(resident.handle, steps, state, previous, loop, record if speaks else None, notes)
        elif record is not None and not loop.ended(outcome):
            loop.progress.begin(_rows_of(resident.handle))
            score = steps.score(outcome.reached)
            if speaks:
                record.check_score(outcome, score)
            outcome = loop.go_on(steps, outcome, record.keep if speaks else None)
        if outcome.model is None:
            raise NoObjective(self._why(outcome))
        model = attach(outcome.model, self._provenance(outcome, resident, steps, notes), owner=previous)
        return Fitted(model, outcome, self._messages(outcome))

    def _begin(
        self, handle: Any, steps: Steps, state: Any, previous: Any, loop: Loop, record: Record | None, notes: list[str]
    ) -> Outcome:
        if previous is not None:
            start, score = previous, steps.score(previous)
        else:
            start, score = self._draw(handle, steps, state, notes)
        score = steps.agree(score)
        loop.progress.begin(_rows_of(handle))
        if record is None:
            return loop.run(steps, start, score)
        record.begin(start, notes)
        return loop.run(steps, start, score, record.keep)

    def _steps(self, handle: Any) -> Steps:
        from mixle.utils.parallel.folding.handle import is_ours

        ours = self.fused and is_ours(handle)
        if self.strategy == "squarem":
            if not ours:
                raise ValueError(
                    "strategy='squarem' needs a handle of this library: encoded_data(rows, estimator, ...)"
                )
            return SquaremSteps(handle, self.estimator, penalty_of(self.objective, self.estimator))
        kind = FusedSteps if ours else DocumentedSteps
        return kind(handle, self.estimator, penalty_of(self.objective, self.estimator))

    def _draw(self, handle: Any, steps: Steps, state: Any, notes: list[str]) -> tuple[Any, Score]:
        try:
            model = handle.pysp_seq_initialize(self.starter, state, self.init_p)
            score = steps.score(model)
            if self.init_p == 1.0 or (score.finite and not score.left_out):
                notes.extend(_start_notes(model))
                return model, score
            what = f"left {score.left_out} of the rows out" if score.left_out else f"scored {score.objective}"
        except (EmptyDataError, SupportError) as error:
            if self.init_p == 1.0:
                raise
            what = f"missed what rows hold ({error})"
        # A share of the rows may miss a label or a range altogether, and what a start misses EM cannot find again.
        again = handle.pysp_seq_initialize(self.starter, state, 1.0)
        second = steps.score(again)
        notes.append(f"the start {what}; it was drawn again from all rows")
        notes.extend(_start_notes(again))
        return again, second

    def _why(self, outcome: Outcome) -> str:
        text = f"EM did not produce a finite objective: the start scored {outcome.start.objective}"
        if outcome.start.left_out:
            return f"{text}; no component supports any of the rows: choose families whose support holds the data"
        step = f" and the first step gained {outcome.gain}" if outcome.iterations else ""
        return (
            f"{text}{step}; a row outside the support of every component, or a parameter that overflows, does this: "
            "leave out the rows that score -inf, rescale their columns, or choose families whose support holds them"
        )

    def _provenance(self, outcome: Outcome, resident: Resident, steps: Steps, notes: list[str]) -> FitProvenance:
        repairs = list(notes)
        if outcome.score.left_out:
            repairs.append(_left_out(outcome.score.left_out))
        if isinstance(steps, SquaremSteps) and steps.returned:
            repairs.append(
                f"squarem: {steps.returned} of {steps.returned + steps.taken} extrapolations were taken back"
            )
        told = getattr(outcome.model, "numerical_repairs", None)
        if callable(told):
            repairs.extend(note for note in told() if note not in repairs)
        gained = next((gain for _, gain, accepted in reversed(outcome.history) if accepted), 0.0)
        return FitProvenance(
            algorithm=steps.algorithm,
            estimator=type(self.estimator).__name__,
            objective=self.objective,
            iterations=outcome.iterations,
            max_iterations=self.loop.max_its,
            converged=outcome.stopped == "converged",
            delta=self.loop.rule.delta,
            final_objective=outcome.score.objective,
            objective_gain=gained if math.isfinite(gained) else None,
            n_observations=resident.rows,
            repairs=tuple(repairs),
            seed=self.seed,
            last_accepted_objective=outcome.last.objective,
            stopped=outcome.stopped,
            left_out=outcome.score.left_out,
            inferred=self.inferred,
            objectives=outcome.objectives(),
            precision=getattr(resident.handle, "precision", "float64"),
        )

    def _messages(self, outcome: Outcome) -> list[MixleWarning]:
        messages: list[MixleWarning] = []
        delta, stopped, gain = self.loop.rule.delta, outcome.stopped, f"the last step gained {outcome.gain:.6g}"
        done = f"EM stopped after {outcome.iterations} iteration{'' if outcome.iterations == 1 else 's'}"
        if stopped == "interrupted":
            messages.append(InterruptWarning(f"{done}, interrupted; the model reached so far is returned"))
        elif stopped == "rejected" and (not self.loop.rule.settles or not math.isfinite(outcome.gain)):
            messages.append(ConvergenceWarning(f"{done}: {gain} and was rejected; the model before it is returned"))
        elif stopped in {"max_its", "max_seconds"} and self.loop.rule.settles:
            what = f"delta is {delta:g}" if self.loop.rule.tol is None else f"tol is {self.loop.rule.tol:g}"
            todo = f"raise {stopped} or {what.split(maxsplit=1)[0]}"
            messages.append(ConvergenceWarning(f"{done} before convergence: {gain}, {what}; {todo}"))
        if outcome.score.left_out:
            messages.append(RepairWarning(f"{_left_out(outcome.score.left_out)}; add a component that supports them"))
        return messages


def _start_notes(model: Any) -> list[str]:
    told = getattr(model, "numerical_repairs", None)
    return [note for note in told() if note.startswith("start: ")] if callable(told) else []


def _rows_of(handle: Any) -> int | None:
    """Return the number of rows, if the handle tells."""
    return len(handle) if hasattr(handle, "__len__") else None


def _left_out(rows: int) -> str:
    return f"{rows} {'row is' if rows == 1 else 'rows are'} supported by no component and left out of the fit"


def _deadline(settings: dict[str, Any]) -> float | None:
    limit = check_positive("max_seconds", settings.get("max_seconds"))
    return None if limit is None else float(settings["started"]) + limit


def warn_all(messages: list[MixleWarning], stacklevel: int = 3) -> None:
    """Warn of each message at the line that called the public function."""
    for message in messages:
        warnings.warn(message, stacklevel=stacklevel)
