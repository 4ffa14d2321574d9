"""`best_of`: independent trials on rows that are encoded once."""

import inspect
import io
import re

import numpy as np
import pytest
from fit_support import BrokenWaits, clusters, counted

from mixle.inference import best_of, optimize
from mixle.stats import GaussianEstimator, MixtureEstimator, seq_log_density_sum

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")

DOCUMENTED = (
    "data vdata est trials max_its init_p delta rng init_estimator enc_data enc_vdata out print_iter reuse_estep_ll "
    "objective seed fused_options"
).split()


def mixture(k=4):
    return MixtureEstimator([GaussianEstimator() for _ in range(k)])


def trials(out):
    return [float(score) for score in re.findall(r"^Trial \d+\. VLL=(\S+)$", out.getvalue(), re.MULTILINE)]


def run(data=None, vdata=None, n=4, its=15, **options):
    out = io.StringIO()
    score, model = best_of(data, vdata, mixture(), n, its, 0.1, 1e-9, out=out, print_iter=10**6, **options)
    return score, model, trials(out)


def test_the_signature_is_the_documented_one_and_keywords():
    assert list(inspect.signature(best_of).parameters) == [
        *DOCUMENTED,
        "weights",
        "checkpoint",
        "resume",
        "progress",
        "precision",
    ]


@pytest.mark.parametrize("options", [{}, {"rng": np.random.RandomState(0)}, {"seed": 0}], ids=["none", "rng", "seed"])
def test_trials_are_independent_also_without_a_generator(options):
    _, _, scores = run(clusters(), **options)
    assert len(scores) == 4
    assert len(set(scores)) > 1


def test_the_first_trial_is_the_fit_of_optimize_and_none_means_seed_zero():
    rows = clusters()
    score, model, _ = run(rows, n=1)
    single = optimize(rows, mixture(), max_its=15)
    assert model.digest() == single.digest()
    assert score == single.fit_provenance().final_objective
    assert run(rows, n=3)[:1] == run(rows, n=3, seed=0)[:1]


@pytest.mark.parametrize("shards", [2, 3, 8])
def test_every_trial_is_the_same_whatever_the_shards(shards):
    one = run(n=4, enc_data=counted(clusters(), mixture()))
    many = run(n=4, enc_data=counted(clusters(), mixture(), shards=shards))
    assert many[2] == pytest.approx(one[2], rel=1e-9)


def test_the_best_trial_on_the_training_rows_wins():
    rows = clusters()
    score, model, scores = run(rows, n=6)
    assert score == pytest.approx(max(scores), abs=1e-5)
    assert score == counted(rows, mixture()).pysp_seq_log_density_sum(model)[1]
    assert model.fit_provenance().final_objective == score


def test_validation_rows_decide_where_given():
    rows, valid = clusters(40), clusters(400, seed=9)
    score, model, scores = run(rows, valid, n=6)
    assert score == pytest.approx(max(scores), abs=1e-5)
    handle = counted(valid, mixture())
    assert score == handle.pysp_seq_log_density_sum(model)[1]
    again, _, _ = run(rows, n=6, enc_vdata=handle)
    assert again == score


def test_rows_are_encoded_once_and_the_handle_serves_every_trial():
    handle = counted(clusters(), mixture())
    run(n=3, enc_data=handle)
    assert handle.transport.tasks.count("Initialize") == 3
    assert handle.transport.closes == 0
    assert run(n=3, enc_data=handle)[0] == run(clusters(), n=3)[0]


def test_lines_of_trials_and_iterations():
    out = io.StringIO()
    best_of(clusters(), None, mixture(), 2, 2, 0.1, None, out=out)
    lines = [line.split(":")[0].split(".")[0] for line in out.getvalue().splitlines()]
    assert lines == ["Iteration 1", "Iteration 2", "Trial 1", "Iteration 1", "Iteration 2", "Trial 2"]
    assert re.search(r"^Trial 1\. VLL=-\d+\.\d{6}$", out.getvalue(), re.MULTILINE)


@pytest.mark.parametrize(("n", "its"), [(0, 0), (-3, -1)])
def test_trials_and_iterations_are_at_least_one(n, its):
    _, model, scores = run(clusters(), n=n, its=its)
    assert len(scores) == 1
    assert model.fit_provenance().iterations == 1


@pytest.mark.parametrize(("n", "its"), [(1.5, 1), (1, None), ("2", 1)])
def test_counts_that_are_none_are_refused(n, its):
    with pytest.raises(ValueError, match="must be an integer"):
        run(clusters(), n=n, its=its)


def test_a_trial_without_a_finite_objective_is_passed_over():
    out = io.StringIO()
    nan = float("nan")
    estimator = BrokenWaits([nan, nan, nan, 0.5, 0.6, 0.7, nan, nan, nan])
    score, model = best_of([1.0, 2.0], None, estimator, 3, 2, 0.5, None, out=out)
    assert model.rate in {0.6, 0.7}
    assert np.isfinite(score)
    assert trials(out)[0] == trials(out)[2] == -np.inf
    with pytest.raises(ValueError, match="did not produce a finite objective"):
        best_of([1.0, 2.0], None, BrokenWaits([nan] * 9), 2, 2, 0.5, None)


def test_an_interrupt_ends_the_trials_and_keeps_the_best():
    class Impatient(BrokenWaits):
        def estimate(self, nobs, value):
            if not self.rates:
                raise KeyboardInterrupt
            return super().estimate(nobs, value)

    out = io.StringIO()
    with pytest.warns(UserWarning, match="trial 2 of 9 was interrupted"):
        _, model = best_of([1.0, 2.0], None, Impatient([0.4, 0.5, 0.6, 0.4]), 9, 2, 0.5, None, out=out)
    assert model.rate == 0.6
    assert len(trials(out)) == 1
    with pytest.raises(KeyboardInterrupt):
        best_of([1.0, 2.0], None, Impatient([0.4]), 9, 2, 0.5, None)


@pytest.mark.filterwarnings("default:EM stopped after:UserWarning")
def test_one_warning_for_the_model_that_is_returned():
    with pytest.warns(UserWarning, match="before convergence") as seen:
        best_of(clusters(), None, mixture(), 5, 2, 0.1, 1e-9)
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_weights_take_part():
    rows, weights = clusters(), np.zeros(200)
    weights[:50] = 2.0
    score, model = best_of(rows, None, mixture(2), 2, 30, 0.5, 1e-9, weights=weights)
    encoder = model.dist_to_encoder()
    total = seq_log_density_sum([(50, encoder.seq_encode(rows[:50]))], model)[1]
    assert score == pytest.approx(2 * total)
