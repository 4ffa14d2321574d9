"""`optimize`: one pass per iteration, one behaviour on every kind of handle."""

import inspect
import io
import pickle
import warnings

import numpy as np
import pytest
from fit_support import BrokenWaits, SpyHandle, WaitEstimator, WaitModel, clusters, counted

import mixle.inference
from mixle.inference import best_of, optimize, seq_initialize
from mixle.inference.streaming import StreamingEstimator
from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    DirichletEstimator,
    GaussianDistribution,
    GaussianEstimator,
    HiddenMarkovEstimator,
    MarkovChainEstimator,
    MixtureDistribution,
    MixtureEstimator,
    MultivariateGaussianEstimator,
    OptionalEstimator,
    PoissonEstimator,
    SequenceEstimator,
    VonMisesEstimator,
    seq_encode,
    seq_log_density_sum,
)

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")

DOCUMENTED = (
    "data estimator max_its delta init_estimator init_p rng prev_estimate vdata enc_data enc_vdata out print_iter "
    "num_chunks engine precision fields resources placement sub_chunks chunk_size backend num_workers client comm root "
    "root_only strategy reuse_estep_ll objective on_step structure schedule monotone track_best seed fused_options"
).split()


def mixture(k=3):
    return MixtureEstimator([GaussianEstimator() for _ in range(k)])


def fit(data=None, estimator=None, **options):
    """Return the model and what was printed."""
    out = io.StringIO()
    model = optimize(data, estimator or mixture(), out=out, **options)
    return model, out.getvalue()


def test_the_signature_is_the_documented_one_and_seven_keywords_more():
    parameters = inspect.signature(optimize).parameters
    more = ["max_seconds", "weights", "num_shards", "checkpoint", "resume", "tol", "progress"]
    assert list(parameters) == [*DOCUMENTED, *more]
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert (defaults["max_its"], defaults["delta"], defaults["init_p"], defaults["backend"]) == (10, 1e-9, 0.1, "local")


def test_the_package_exports_fits_and_no_encoder():
    assert "seq_encode" not in mixle.inference.__all__
    assert not hasattr(mixle.inference, "seq_encode")
    assert callable(mixle.inference.optimize)
    assert optimize.__module__ == "mixle.inference.estimation"
    assert set(mixle.inference.__all__) <= set(dir(mixle.inference))


def test_an_unconverged_fit_makes_one_pass_per_iteration_and_one_score():
    handle = counted(clusters(), mixture())
    optimize(None, mixture(), enc_data=handle, max_its=4)
    assert handle.transport.tasks == [
        "Sample",
        "Initialize",
        "Accumulate",
        "Accumulate",
        "Accumulate",
        "Accumulate",
        "Score",
    ]


def test_a_converged_fit_makes_one_pass_more_than_it_has_iterations():
    handle = counted(clusters(), mixture())
    model = optimize(None, mixture(), enc_data=handle, max_its=5000, delta=1e-3)
    provenance = model.fit_provenance()
    assert provenance.converged
    passes = handle.transport.tasks[2:]
    assert passes == ["Accumulate"] * (provenance.iterations + 1)


def test_a_previous_estimate_is_the_start_and_nothing_is_drawn():
    start = MixtureDistribution([GaussianDistribution(m, 1.0) for m in (0.0, 3.0, 9.0)], [0.3, 0.3, 0.4])
    handle = counted(clusters(), mixture())
    optimize(None, mixture(), enc_data=handle, prev_estimate=start, max_its=1)
    assert handle.transport.tasks == ["Accumulate", "Score"]


@pytest.mark.parametrize(
    "options", [{}, {"max_its": 60, "delta": 1e-4}, {"max_its": 500, "delta": 1e-8, "print_iter": 7}]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_handle_prints_and_returns_the_same(seed, options):
    rows = clusters(seed=seed)
    ours = counted(rows, mixture())
    spied = counted(rows, mixture(), kind=SpyHandle)
    patched = counted(rows, mixture())
    patched.pysp_seq_log_density_sum = patched.pysp_seq_log_density_sum
    results = [
        fit(rows, seed=seed, **options),
        fit(rows, seed=seed, reuse_estep_ll=False, **options),
        *(fit(enc_data=handle, seed=seed, **options) for handle in (ours, spied, patched)),
    ]
    texts = {text for _, text in results}
    assert len(texts) == 1
    assert next(iter(texts))
    assert len({model.digest() for model, _ in results}) == 1
    assert len({model.fit_provenance().final_objective for model, _ in results}) == 1
    algorithms = [model.fit_provenance().algorithm for model, _ in results]
    assert algorithms == ["fused-em", "em", "fused-em", "em", "em"]
    for slow in (spied, patched):
        assert slow.transport.tasks.count("Score") == slow.transport.tasks.count("Accumulate") + 1


def test_steps_and_lines_follow_the_standard_loop_by_hand():
    rows = clusters()
    handle = counted(rows, mixture())
    model = seq_initialize(handle, mixture(), np.random.RandomState(5), 0.1)
    expected, old = [], handle.pysp_seq_log_density_sum(model)[1]
    for iteration in range(1, 5):
        model = handle.pysp_seq_estimate(mixture(), model)
        new = handle.pysp_seq_log_density_sum(model)[1]
        expected.append((iteration, str(model), new, new - old))
        old = new
    steps = []
    optimize(rows, mixture(), max_its=4, rng=np.random.RandomState(5), on_step=steps.append)
    assert [(s.iter, str(s.model), s.log_density, s.delta) for s in steps] == expected


def test_chunks_from_seq_encode_fit_as_the_rows_do():
    rows = clusters()
    chunks = seq_encode(rows, estimator=mixture())
    a, b = optimize(rows, mixture(), seed=3), optimize(None, mixture(), enc_data=chunks, seed=3)
    assert a.digest() == b.digest()
    assert b.fit_provenance().n_observations == len(rows)


def test_a_handle_in_the_place_of_data_is_used_as_it_is():
    handle = counted(clusters(), mixture())
    assert optimize(handle, mixture(), seed=3).digest() == optimize(clusters(), mixture(), seed=3).digest()
    assert handle.transport.closes == 0


@pytest.mark.parametrize(
    "same",
    [{"seed": 7}, {"rng": 7}, {"rng": np.int64(7)}, {"rng": np.random.RandomState(7)}],
    ids=["seed", "int", "numpy int", "RandomState"],
)
def test_seeds_and_generators_are_one_choice(same):
    assert optimize(clusters(), mixture(), **same).digest() == optimize(clusters(), mixture(), seed=7).digest()


def test_without_a_seed_fits_are_those_of_seed_zero():
    digests = {optimize(clusters(), mixture(), **options).digest() for options in ({}, {"seed": 0}, {"rng": 0})}
    assert len(digests) == 1


def test_a_generator_is_drawn_from():
    a, b = np.random.default_rng(1), np.random.default_rng(1)
    assert optimize(clusters(), mixture(), rng=a).digest() == optimize(clusters(), mixture(), rng=b).digest()
    assert a.random() == b.random() != np.random.default_rng(1).random()


def test_iterators_and_distributions_are_accepted():
    by_list = optimize(list(clusters()), mixture(), seed=1)
    assert optimize(iter(clusters()), mixture(), seed=1).digest() == by_list.digest()
    prototype = MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3, [1 / 3] * 3)
    assert optimize(clusters(), prototype, seed=1).digest() == by_list.digest()


def test_T63_float32_rows_fit_as_their_float64_copy():
    rows = clusters().astype(np.float32)
    wide = optimize(rows.astype(np.float64), mixture())
    assert optimize(rows, mixture()).digest() == wide.digest()
    assert optimize(list(rows), mixture()).digest() == wide.digest()


def test_validation_rows_are_scored_and_choose_the_model():
    train, valid = clusters(100, seed=5), clusters(300, seed=99)
    steps = []
    model, text = fit(train, mixture(8), vdata=valid, max_its=80, delta=1e-7, on_step=steps.append)
    handle = counted(valid, mixture(8))
    scores = [handle.pysp_seq_log_density_sum(step.model)[1] for step in steps]
    assert text.count(", ln[p_mat(Valid Data|Model)]=") == len(steps)
    assert "=%e\n" % scores[0] in text.splitlines(keepends=True)[0]
    best = int(np.argmax(scores))
    assert best < len(steps) - 1, "these rows are meant to be overfitted"
    assert model.digest() == steps[best].model.digest()
    encoded = optimize(train, mixture(8), enc_vdata=seq_encode(valid, estimator=mixture(8)), max_its=80, delta=1e-7)
    assert encoded.digest() == model.digest()


def test_a_user_family_without_base_classes_fits():
    rows = [1.0, 2.0, 6.0]
    model = optimize(rows, WaitEstimator())
    assert model.rate == pytest.approx(1 / 3)
    assert optimize(rows, WaitModel(1.0)).rate == model.rate


def test_a_prior_penalises_score_and_lines():
    rows = [1.0, 2.0, 6.0]
    estimator = WaitEstimator(shape=4.0, rate=2.0)
    model, text = fit(rows, estimator)
    assert model.rate == pytest.approx((3 + 3) / (9 + 2))
    assert text.startswith("Iteration 1: penalized-LL=")
    penalised = 3 * np.log(model.rate) - 9 * model.rate + estimator.model_log_density(model)
    assert model._fit_provenance.final_objective == pytest.approx(penalised)
    assert model._fit_provenance.objective == "map"
    assert fit(rows, estimator, objective="vb")[1] == text
    assert fit(rows, estimator, reuse_estep_ll=False)[1] == text
    plain, text = fit(rows, estimator, objective="mle")
    assert "penalized" not in text
    rate = plain.rate
    assert plain._fit_provenance.final_objective == pytest.approx(3 * np.log(rate) - 9 * rate)


def test_T22_a_step_to_nan_is_rejected_and_never_converges():
    with pytest.warns(UserWarning, match="the last step gained nan and was rejected"):
        model = optimize([1.0, 2.0], BrokenWaits([0.1, 0.5, float("nan"), 1.0]), monotone=False)
    assert model.rate == 0.5
    assert not model._fit_provenance.converged
    assert model._fit_provenance.stopped == "rejected"


@pytest.mark.parametrize("options", [{}, {"reuse_estep_ll": False}, {"monotone": False}, {"delta": None}])
def test_T22_without_any_finite_objective_there_is_an_error(options):
    with pytest.raises(ValueError, match="did not produce a finite objective"):
        optimize([1.0, 2.0], BrokenWaits([float("nan")] * 9), **options)


def test_a_start_without_a_finite_score_is_drawn_once_more_from_all_rows():
    model = optimize([1.0, 2.0], BrokenWaits([float("nan"), 0.2, 0.6, 0.6]))
    assert model.rate == 0.6
    assert model._fit_provenance.repairs == ("the start scored nan; it was drawn again from all rows",)


PAIR = MixtureEstimator([CategoricalEstimator()] * 2)
LABELS = [f"label {i % 40}" for i in range(200)]
MISSED = {
    "labels in a field": (CompositeEstimator((PAIR, GaussianEstimator())), [(v, 1.0 * len(v)) for v in LABELS]),
    "labels that may be missing": (OptionalEstimator(PAIR, est_prob=True), [None, *LABELS]),
    "labels of a sequence": (SequenceEstimator(PAIR), [[v] for v in LABELS]),
    "chains in a field": (
        CompositeEstimator((HiddenMarkovEstimator([CategoricalEstimator()] * 2), GaussianEstimator())),
        [([v, v], 1.0) for v in LABELS],
    ),
    "no direction": (OptionalEstimator(VonMisesEstimator(), est_prob=True), [None] * 9 + [0.5, 0.75]),
    "no shares": (OptionalEstimator(DirichletEstimator(), est_prob=True), [None] * 9 + [[0.5, 0.5], [0.25, 0.75]]),
    "no width": (
        OptionalEstimator(MultivariateGaussianEstimator(), est_prob=True),
        [None] * 9 + [[0.5, 0.0], [1.0, 3.0]],
    ),
    "no chain": (OptionalEstimator(MarkovChainEstimator(), est_prob=True), [None] * 9 + ["ab", "ba"]),
}


@pytest.mark.parametrize("what", MISSED)
def test_a_start_that_misses_what_rows_hold_is_drawn_again_from_all_rows(what):
    estimator, rows = MISSED[what]
    for fit_with in ({}, {"reuse_estep_ll": False}, {"num_shards": 3}):
        model = optimize(rows, estimator, init_p=0.01, seed=2, max_its=2, **fit_with)
        told = model.fit_provenance()
        assert told.repairs[0].startswith(("the start missed what rows hold", "the start scored -inf"))
        assert told.repairs[0].endswith("it was drawn again from all rows")
        assert np.isfinite(seq_log_density_sum(seq_encode(rows, model=model), model)[1])
    score, _ = best_of(rows, None, estimator, 2, 2, 0.01, 1e-6, seed=2)
    assert np.isfinite(score)
    assert StreamingEstimator(estimator, init_p=0.01, rng=2).update(rows) is not None


def test_a_start_from_all_rows_that_misses_what_they_hold_is_an_error():
    with pytest.raises(ValueError, match="without rows"):
        optimize([None] * 9, OptionalEstimator(VonMisesEstimator()), init_p=0.5)
    with pytest.raises(ValueError, match="shows a label"):
        optimize([None, []], OptionalEstimator(MarkovChainEstimator()), init_p=0.5)
    with pytest.raises(ValueError, match="without rows"):
        StreamingEstimator(OptionalEstimator(VonMisesEstimator())).update([None, None])


def test_a_start_that_read_all_rows_is_not_drawn_again():
    model = optimize([1.0, 2.0], BrokenWaits([float("nan"), 0.2, 0.6, 0.6]), init_p=1.0)
    assert model.rate == 0.6
    assert model._fit_provenance.repairs == ()
    assert model._fit_provenance.objective_gain == 0.0
    first = optimize([1.0, 2.0], BrokenWaits([float("nan"), 0.2]), init_p=1.0, max_its=1, delta=None)
    assert first._fit_provenance.objective_gain is None


def test_monotone_false_goes_on_after_a_decrease():
    rates = [0.4, 0.6, 3.0, 0.62, 0.62]
    strict = optimize([1.0, 2.0], BrokenWaits(rates))
    assert strict.rate == 0.6
    loose = optimize([1.0, 2.0], BrokenWaits(rates), monotone=False)
    assert loose.rate == 0.62
    last = optimize([1.0, 2.0], BrokenWaits(rates), monotone=False, max_its=2, track_best=False)
    assert last.rate == 3.0
    assert optimize([1.0, 2.0], BrokenWaits(rates), monotone=False, max_its=2).rate == 0.6


@pytest.mark.filterwarnings("default:EM stopped after:UserWarning")
def test_warnings_name_what_ended_an_unsettled_fit():
    with pytest.warns(
        UserWarning, match="2 iterations before convergence: the last step gained .*raise max_its or delta"
    ) as seen:
        optimize(clusters(), mixture(), max_its=2)
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="raise max_seconds or delta"):
        model = optimize(clusters(), mixture(), max_its=50, max_seconds=1e-9)
    assert model.fit_provenance().iterations == 1
    assert model.fit_provenance().stopped == "max_seconds"
    with pytest.warns(UserWarning, match="the last step gained -.* and was rejected"):
        optimize([1.0, 2.0], BrokenWaits([0.4, 0.6, 3.0]), delta=None)


@pytest.mark.filterwarnings("error:EM stopped after:UserWarning")
def test_settled_fits_and_full_runs_without_delta_do_not_warn():
    optimize(clusters(), GaussianEstimator())
    optimize(clusters(), mixture(), delta=None, max_its=3)
    optimize([1.0, 2.0], BrokenWaits([0.4, 0.6, 3.0]))


def test_an_interrupt_returns_what_was_reached():
    def stop(step):
        if step.iter == 3:
            raise KeyboardInterrupt

    full = []
    optimize(clusters(), mixture(), max_its=3, on_step=full.append)
    with pytest.warns(UserWarning, match="interrupted; the model reached so far"):
        model = optimize(clusters(), mixture(), max_its=9, on_step=stop)
    assert model.digest() == full[2].model.digest()
    assert model.fit_provenance().stopped == "interrupted"


def test_an_interrupt_before_the_first_step_is_raised():
    class Impatient(BrokenWaits):
        def estimate(self, nobs, value):
            if not self.rates:
                raise KeyboardInterrupt
            return super().estimate(nobs, value)

    with pytest.raises(KeyboardInterrupt):
        optimize([1.0, 2.0], Impatient([0.3]))


def test_an_error_of_on_step_is_the_callers():
    def fail(step):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        optimize(clusters(), mixture(), on_step=fail)


def test_the_model_of_a_mixed_record_fits_from_tuples():
    rows = [(float(x), int(abs(x))) for x in clusters()]
    estimator = MixtureEstimator([CompositeEstimator((GaussianEstimator(), PoissonEstimator())) for _ in range(2)])
    model = optimize(rows, estimator, max_its=200, delta=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert again.digest() == model.digest()
    assert again.fit_provenance() == model.fit_provenance()


def test_fits_leave_no_warnings_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "EM stopped after")
        optimize(clusters(), mixture(), max_its=30)
