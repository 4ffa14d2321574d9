"""Acceptance, convergence, and the loop around them on objective sequences made for the purpose."""

import io
import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixle.inference.loop import Loop
from mixle.inference.progress import Progress
from mixle.inference.stopping import Score, StopRule, Verdict, rounding

EPS = sys.float_info.epsilon
finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
anything = st.floats(allow_nan=True, allow_infinity=True)


class Script:
    """Steps whose scores are written down: model i scores `scores[i]`."""

    algorithm = "script"

    def __init__(self, *scores, interrupt_at=None):
        self.scores = [score if isinstance(score, Score) else Score(score) for score in scores]
        self.interrupt_at = interrupt_at
        self.last_asked = []

    def score(self, model, *, last=False):
        if model == self.interrupt_at:
            raise KeyboardInterrupt
        self.last_asked.append(last)
        return self.scores[model]

    def agree(self, value):
        return value

    def step(self, model):
        return model + 1


def run(script, *, delta=1e-9, monotone=True, max_its=None, **settings):
    cap = len(script.scores) - 1 if max_its is None else max_its
    loop = Loop(StopRule(delta, monotone), cap, **settings)
    return loop.run(script, 0, script.score(0))


def test_T50_a_decrease_of_one_rounding_error_is_accepted_and_converged():
    verdict = StopRule(1e-9).judge(Score(-2.624295383725169), Score(-2.6242953837251695))
    assert verdict.accepted
    assert verdict.converged
    assert verdict.gain < 0


def test_T50_the_slack_grows_with_the_sum():
    total = -1e12
    step = total - 4 * EPS * 1e12
    assert step < total
    assert StopRule(None).judge(Score(total), Score(step)).accepted
    assert not StopRule(None).judge(Score(total), Score(total - 100 * EPS * 1e12)).accepted


@pytest.mark.parametrize(("ulps", "level"), [(-9, False), (-7, True), (7, True), (9, False)])
def test_T50_the_slack_is_eight_rounding_errors(ulps, level):
    total = -(2.0**60)
    verdict = StopRule(1e-9).judge(Score(total), Score(total + ulps * EPS * 2.0**60))
    assert verdict.converged is level
    assert verdict.accepted is (level or ulps > 0)


def test_a_sum_too_large_for_delta_converges_at_its_rounding():
    total = -1e12
    assert StopRule(1e-9).judge(Score(total), Score(total + 4 * EPS * 1e12)).converged
    assert not StopRule(1e-9).judge(Score(total), Score(total + 100 * EPS * 1e12)).converged


@pytest.mark.parametrize("new", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("old", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("delta", [None, 1e-9, 1e9])
@pytest.mark.parametrize("monotone", [True, False])
def test_T22_a_step_without_a_finite_objective_is_never_accepted_nor_converged(new, old, delta, monotone):
    verdict = StopRule(delta, monotone).judge(Score(old), Score(new))
    assert (verdict.accepted, verdict.converged) == (False, False)


@pytest.mark.parametrize("old", [math.nan, -math.inf])
def test_a_finite_step_from_a_start_without_objective_is_accepted_and_gains_infinity(old):
    assert StopRule(1e9).judge(Score(old), Score(-3.0)) == Verdict(accepted=True, converged=False, gain=math.inf)


@given(anything, anything, st.one_of(st.none(), st.floats(1e-12, 1e3)), st.booleans())
def test_convergence_implies_acceptance_implies_a_finite_objective(old, new, delta, monotone):
    verdict = StopRule(delta, monotone).judge(Score(old), Score(new))
    assert not verdict.converged or (verdict.accepted and delta is not None)
    assert not verdict.accepted or math.isfinite(new)


@given(finite, finite)
def test_the_strict_rule_accepts_exactly_gains_above_the_slack(old, new):
    accepted = StopRule(None).judge(Score(old), Score(new)).accepted
    assert accepted == (new - old >= -max(1e-12, rounding(new)))


def test_a_decrease_is_accepted_without_monotone_but_is_no_convergence():
    assert StopRule(1e9, monotone=False).judge(Score(-1.0), Score(-2.0)) == Verdict(True, False, -1.0)


def test_explaining_more_rows_wins_over_the_objective_and_fewer_loses():
    rule = StopRule(1e9)
    assert rule.judge(Score(-1.0, 2), Score(-5.0, 1)) == Verdict(True, False, -4.0)
    assert rule.judge(Score(-5.0, 1), Score(-1.0, 2)) == Verdict(False, False, 4.0)


def test_the_loop_stops_at_convergence_and_returns_that_model():
    outcome = run(Script(-10.0, -5.0, -4.0, -4.0, -1.0), max_its=4)
    assert (outcome.model, outcome.iterations, outcome.stopped) == (3, 3, "converged")


@pytest.mark.parametrize("delta", [1e-9, None])
def test_the_loop_stops_at_the_first_rejection_and_keeps_the_model_before(delta):
    outcome = run(Script(-10.0, -5.0, -6.0, -1.0), delta=delta)
    assert (outcome.model, outcome.score, outcome.iterations, outcome.stopped) == (1, Score(-5.0), 2, "rejected")


def test_T22_nan_after_progress_ends_unconverged_with_the_last_finite_model():
    outcome = run(Script(-10.0, -5.0, math.nan))
    assert (outcome.model, outcome.stopped) == (1, "rejected")
    assert outcome.last == Score(-5.0)


def test_delta_none_runs_to_the_cap():
    outcome = run(Script(-3.0, -3.0, -3.0, -3.0), delta=None)
    assert (outcome.iterations, outcome.stopped) == (3, "max_its")


def test_only_the_score_at_the_cap_is_asked_as_the_last():
    script = Script(-4.0, -3.0, -2.0, -1.0)
    run(script)
    assert script.last_asked == [False, False, False, True]


def test_without_a_finite_score_there_is_no_model():
    outcome = run(Script(-math.inf, math.nan, -1.0))
    assert outcome.model is None
    assert outcome.iterations == 1


def test_a_start_without_objective_may_recover():
    outcome = run(Script(-math.inf, -2.0, -1.0))
    assert (outcome.model, outcome.iterations) == (2, 2)


def test_the_best_model_is_returned_unless_the_last_is_asked_for():
    scores = (-10.0, -5.0, -7.0)
    assert run(Script(*scores), monotone=False).model == 1
    outcome = run(Script(*scores), monotone=False, track_best=False)
    assert (outcome.model, outcome.score, outcome.last) == (2, Score(-7.0), Score(-7.0))


@pytest.mark.parametrize(
    ("validation", "best"),
    [
        ([-9.0, -3.0, -4.0, -5.0], 1),
        ([-3.0, -4.0, -5.0, -6.0], 0),
        ([math.nan, -4.0, -3.0, math.nan], 2),
        ([math.nan] * 4, 3),
        ([-math.inf] * 4, 3),
        ([-4.0, -3.0, -3.0, -3.5], 2),
    ],
)
def test_validation_chooses_the_model(validation, best):
    outcome = run(Script(-10.0, -5.0, -2.0, -1.0), validate=validation.__getitem__)
    assert outcome.model == best


def test_a_step_without_objective_is_not_validated():
    asked = []
    run(Script(-10.0, -5.0, math.nan), validate=lambda model: asked.append(model) or -1.0)
    assert asked == [0, 1]


def test_no_iteration_begins_after_the_deadline():
    outcome = run(Script(-10.0, -5.0, -2.0, -1.0), deadline=time.monotonic())
    assert (outcome.model, outcome.iterations, outcome.stopped) == (1, 1, "max_seconds")


def test_the_cap_is_named_when_both_limits_are_reached():
    assert run(Script(-10.0, -5.0), deadline=time.monotonic()).stopped == "max_its"


def test_an_interrupt_keeps_what_was_reached():
    outcome = run(Script(-10.0, -5.0, -2.0, -1.0, interrupt_at=2))
    assert (outcome.model, outcome.iterations, outcome.stopped) == (1, 1, "interrupted")


def test_an_interrupt_before_the_first_step_is_raised():
    with pytest.raises(KeyboardInterrupt):
        run(Script(-10.0, -5.0, interrupt_at=1))


def test_every_iteration_is_told_a_rejected_one_too():
    steps = []
    run(Script(-10.0, -5.0, -6.0), on_step=steps.append)
    assert [tuple(step) for step in steps] == [(1, 1, -5.0, 5.0), (2, 2, -6.0, -1.0)]


LINE = "Iteration {}: ln[p_mat(Data|Model)]={}, ln[p_mat(Data|Model)]-ln[p_mat(Data|PrevModel)]={}"


@pytest.mark.parametrize(
    ("every", "lines"),
    [
        (
            1,
            [
                (1, "-5.000000e+00", "5.000000e+00"),
                (2, "-4.000000e+00", "1.000000e+00"),
                (3, "-4.000000e+00", "0.000000e+00"),
            ],
        ),
        (2, [(2, "-4.000000e+00", "1.000000e+00"), (3, "-4.000000e+00", "0.000000e+00")]),
        (0, [(3, "-4.000000e+00", "0.000000e+00")]),
    ],
)
def test_printed_lines(every, lines):
    out = io.StringIO()
    run(Script(-10.0, -5.0, -4.0, -4.0), progress=Progress(out, every))
    assert out.getvalue() == "".join(LINE.format(*line) + "\n" for line in lines)


def test_printed_line_with_validation_and_with_a_prior():
    out = io.StringIO()
    run(Script(-10.0, -5.0), progress=Progress(out), validate=lambda _: -2.5)
    assert out.getvalue().endswith(", ln[p_mat(Valid Data|Model)]=-2.500000e+00\n")
    out = io.StringIO()
    run(Script(-10.0, -5.0), progress=Progress(out, penalised=True))
    assert out.getvalue() == "Iteration 1: penalized-LL=-5.000000e+00, dpenalized-LL=5.000000e+00\n"


def test_print_iter_alone_means_standard_output(capsys):
    assert Progress.choose(None, None).out is None
    assert Progress.choose(None, 0).every == 0
    assert Progress.choose(None, 3).every == 3
    run(Script(-10.0, -5.0), progress=Progress.choose(None, 1))
    assert capsys.readouterr().out.startswith("Iteration 1: ")
