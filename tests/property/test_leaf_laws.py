"""Laws that every model of the table obeys."""

import copy
import math
import pickle

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, fold, statistic
from mixle.errors import ContractError, RowError, SupportError, UnscorableObservation
from mixle.stats import scale_suff_stat, validate_estimator_keys
from mixle.stats.counting import free_parameters
from models import MODELS

NAMES = sorted(MODELS)
LEAVES = [name for name in NAMES if MODELS[name]().leaf]


@pytest.fixture(params=NAMES)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(params=LEAVES)
def leaf(request):
    return MODELS[request.param]()


def stat(model, rows, weights=None):
    """Return the statistic of rows under the table's own model."""
    return statistic(model.estimator, rows, weights, model=model.dist)


def scores(dist, rows):
    return dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows))


def test_a_row_scores_the_same_bits_alone_and_among_others(model):
    together = scores(model.dist, model.rows)
    assert together.shape == (len(model.rows),)
    assert together.dtype == np.float64
    assert np.isfinite(together).all()
    alone = np.array([model.dist.log_density(row) for row in model.rows])
    assert together.tobytes() == alone.tobytes()


def test_density_is_the_exponential_of_log_density(model):
    row = model.rows[0]
    assert model.dist.density(row) == math.exp(model.dist.log_density(row))


def test_rows_outside_the_support_score_minus_infinity(model):
    rows = [*model.rows[:3], *model.outside, *model.rows[3:6]]
    together = scores(model.dist, rows)
    inside = scores(model.dist, [*model.rows[:3], *model.rows[3:6]])
    n = len(model.outside)
    assert (together[3 : 3 + n] == -np.inf).all()
    assert np.delete(together, range(3, 3 + n)).tobytes() == inside.tobytes()
    assert [model.dist.log_density(row) for row in model.outside] == [-math.inf] * n


def test_unreadable_rows_are_refused_with_row_and_field(model):
    for row, fields in model.unreadable:
        encoder = model.dist.dist_to_encoder()
        with pytest.raises(RowError) as caught:
            encoder.seq_encode([*model.rows[:2], row, model.rows[2]])
        assert caught.value.fields == fields, row
        assert caught.value.row == 2, row
        assert str(caught.value).startswith("Row 2")
        with pytest.raises((UnscorableObservation, ContractError)) as caught:
            model.dist.log_density(row)
        assert caught.value.row is None
        with pytest.raises(RowError):
            model.estimator.accumulator_factory().make().acc_to_encoder().seq_encode([row])


def test_a_fit_refuses_rows_outside_the_support_or_takes_them(model):
    for row in model.outside if model.refuses_outside else ():
        with pytest.raises(SupportError) as caught:
            stat(model, [*model.rows[:4], row, *model.rows[4:6]])
        assert caught.value.row == 4
        weights = np.array([1.0] * 4 + [0.0] + [1.0] * 2)
        kept = stat(model, [*model.rows[:4], row, *model.rows[4:6]], weights)
        assert bits(kept) == bits(stat(model, model.rows[:6]))


def test_value_and_from_value_are_exact_inverses(model):
    make = model.estimator.accumulator_factory().make
    value = stat(model, model.rows, np.random.RandomState(5).random_sample(len(model.rows)))
    again = make().from_value(value)
    assert bits(again.value()) == bits(value)
    encoder = again.acc_to_encoder()
    straight = make().combine(value)
    for accumulator in (again, straight):
        accumulator.seq_update(encoder.seq_encode(model.rows[:50]), np.full(50, 0.3), model.dist)
    assert bits(again.value()) == bits(straight.value())


def test_the_zero_statistic_is_an_exact_neutral_element(model):
    make = model.estimator.accumulator_factory().make
    value = stat(model, model.rows)
    zero = make().value()
    assert bits(make().from_value(value).combine(zero).value()) == bits(value)
    assert bits(make().from_value(zero).combine(value).value()) == bits(value)
    assert bits(make().from_value(zero).value()) == bits(zero)
    emptied = scale_suff_stat(value, 0.0)
    assert bits(make().from_value(value).combine(emptied).value()) == bits(value)


def test_combine_is_the_statistic_of_the_union(model):
    whole = model.estimator.estimate(None, stat(model, model.rows))
    for cuts in ([80], [1], [10, 11, 200]):
        pieces = np.split(np.arange(len(model.rows)), cuts)
        value = fold(model.estimator, [stat(model, [model.rows[i] for i in piece]) for piece in pieces])
        assert model.parameters(model.estimator.estimate(None, value)) == pytest.approx(
            model.parameters(whole), rel=1e-12, abs=1e-12
        )


def test_nothing_is_shared_between_statistics(model):
    make = model.estimator.accumulator_factory().make
    encoder = make().acc_to_encoder()
    payload, ones = encoder.seq_encode(model.rows), np.ones(len(model.rows))
    first, second = make(), make()
    first.seq_update(payload, ones, model.dist)
    value = first.value()
    before = bits(value)
    second.combine(value)
    first.seq_update(payload, ones, model.dist)
    second.seq_update(payload, ones, model.dist)
    second.scale(0.5)
    assert bits(value) == before
    third = make().from_value(value)
    third.seq_update(payload, ones, model.dist)
    assert bits(value) == before


def test_scaling_multiplies_weights(model):
    value = stat(model, model.rows)
    assert bits(scale_suff_stat(value, 1.0)) == bits(value)
    halved = model.estimator.accumulator_factory().make().from_value(value).scale(0.5).value()
    assert bits(halved) == bits(scale_suff_stat(value, 0.5))
    weighted = stat(model, model.rows, np.full(len(model.rows), 0.5))
    fitted = [model.parameters(model.estimator.estimate(None, v)) for v in (halved, weighted)]
    assert fitted[0] == pytest.approx(fitted[1], rel=1e-12, abs=1e-12)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="scaled"):
            scale_suff_stat(value, wrong)


def test_a_row_of_weight_two_counts_twice_and_of_weight_zero_not_at_all(model):
    weights = np.random.RandomState(3).randint(0, 3, len(model.rows)).astype(float)
    repeated = [row for row, w in zip(model.rows, weights, strict=True) for _ in range(int(w))]
    fitted = [
        model.parameters(model.estimator.estimate(None, value))
        for value in (stat(model, model.rows, weights), stat(model, repeated))
    ]
    assert fitted[0] == pytest.approx(fitted[1], rel=1e-12, abs=1e-12)


def test_an_empty_chunk_changes_nothing(model):
    make = model.estimator.accumulator_factory().make
    accumulator = make()
    encoder = accumulator.acc_to_encoder()
    empty = encoder.seq_encode([])
    assert encoder.row_count(empty) == 0
    assert model.dist.seq_log_density(model.dist.dist_to_encoder().seq_encode([])).shape == (0,)
    accumulator.seq_update(empty, np.zeros(0), model.dist if model.latent else None)
    assert bits(accumulator.value()) == bits(make().value())


def test_row_by_row_is_the_same_sum(model):
    accumulator = model.estimator.accumulator_factory().make()
    for row in model.rows[:60]:
        accumulator.update(row, 1.0, model.dist)
    whole = stat(model, model.rows[:60])
    fitted = [model.parameters(model.estimator.estimate(60.0, v)) for v in (accumulator.value(), whole)]
    assert fitted[0] == pytest.approx(fitted[1], rel=1e-12, abs=1e-12)


def test_a_start_on_all_rows_fits_them(model):
    if model.latent:
        pytest.skip("a start draws what is hidden")
    accumulator = model.estimator.accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(model.rows)
    accumulator.seq_initialize(payload, np.ones(len(model.rows)), np.random.RandomState(1))
    started = model.estimator.estimate(float(len(model.rows)), accumulator.value())
    fitted = model.estimator.estimate(None, statistic(model.estimator, model.rows))
    assert model.parameters(started) == pytest.approx(model.parameters(fitted), rel=1e-12, abs=1e-12)


def test_encoders_cut_their_payloads(model):
    encoder = model.dist.dist_to_encoder()
    payload = encoder.seq_encode(model.rows)
    whole = model.dist.seq_log_density(payload)
    assert encoder.row_count(payload) == len(model.rows)
    assert encoder.nbytes(payload) >= 0
    for start, stop in ((0, len(model.rows)), (0, 0), (3, 4), (17, 101), (len(model.rows), len(model.rows))):
        part = encoder.slice(payload, start, stop)
        assert encoder.row_count(part) == stop - start
        assert model.dist.seq_log_density(part).tobytes() == whole[start:stop].tobytes()
        again = encoder.slice(part, 0, (stop - start) // 2)
        assert encoder.row_count(again) == (stop - start) // 2


def test_columns_of_a_cut_are_the_cut_of_the_columns(model):
    encoder = model.dist.dist_to_encoder()
    payload = encoder.seq_encode(model.rows)
    whole, part = encoder.columns(payload, 0, len(model.rows)), encoder.columns(payload, 20, 90)
    assert whole is not None
    assert part is not None
    assert len(whole) == len(part)
    for a, b in zip(whole, part, strict=True):
        assert len(a.values) == len(model.rows)
        missing = np.zeros(len(model.rows), bool) if a.missing is None else a.missing
        assert np.array_equal(missing[20:90], np.zeros(70, bool) if b.missing is None else b.missing)
        there = ~missing[20:90]
        left, right = np.asarray(a.values[20:90])[there], np.asarray(b.values)[there]
        if a.labels is None:
            assert np.array_equal(left, right)
        else:
            assert [a.labels[i] for i in left] == [b.labels[i] for i in right]


def test_estimator_and_model_read_each_others_payloads(model):
    encoder = model.estimator.accumulator_factory().make().acc_to_encoder()
    payload = encoder.seq_encode(model.rows)
    fitted = model.estimator.estimate(None, stat(model, model.rows))
    theirs = fitted.seq_log_density(payload)
    assert theirs.tobytes() == scores(fitted, model.rows).tobytes()
    assert encoder == model.estimator.accumulator_factory().make().acc_to_encoder()


def test_model_and_estimator_round_trip_as_text(model):
    names = {name: getattr(st, name) for name in st.__all__} | model.options.get("names", {})
    for thing in (model.dist, model.estimator, model.dist.estimator(), model.dist.estimator(2.0)):
        kind = type(thing)
        again = kind.from_json(thing.to_json())
        assert repr(again) == repr(thing) == str(thing)
        read = eval(repr(thing), names)
        assert repr(read) == repr(thing)
        if thing is model.dist:
            assert again.digest() == read.digest() == thing.digest()
            assert scores(again, model.rows).tobytes() == scores(thing, model.rows).tobytes()


def test_fitted_models_round_trip_as_text(model):
    fitted = model.estimator.estimate(None, stat(model, model.rows))
    again = type(fitted).from_json(fitted.to_json())
    assert again.digest() == fitted.digest()
    assert scores(again, model.rows).tobytes() == scores(fitted, model.rows).tobytes()


def test_digests_are_equal_where_parameters_are(model):
    """A fit moves the parameters of most; those of the others have nothing to learn from these rows."""
    fitted = model.estimator.estimate(None, stat(model, model.rows))
    same_parameters = model.parameters(fitted) == model.parameters(model.dist)
    assert (fitted.digest() == model.dist.digest()) is same_parameters


def test_the_digest_tells_all_models_apart():
    digests = {name: MODELS[name]().dist.digest() for name in NAMES}
    assert len(set(digests.values())) == len(NAMES)


@pytest.mark.parametrize("protocol", [2, 5])
def test_all_pieces_pickle(model, protocol):
    def through(thing):
        return pickle.loads(pickle.dumps(thing, protocol))

    dist, estimator = through(model.dist), through(model.estimator)
    encoder = through(model.dist.dist_to_encoder())
    assert encoder == model.dist.dist_to_encoder()
    payload = through(encoder.seq_encode(model.rows))
    assert dist.seq_log_density(payload).tobytes() == scores(model.dist, model.rows).tobytes()
    value = stat(model, model.rows)
    assert bits(statistic(estimator, model.rows, model=model.dist)) == bits(value)
    assert bits(through(value)) == bits(value)
    factory = through(model.estimator.accumulator_factory())
    accumulator = through(factory.make().combine(value))
    assert bits(accumulator.value()) == bits(value)
    assert copy.deepcopy(model.dist).digest() == model.dist.digest()


def test_samplers_repeat_with_their_seed(model):
    if not model.generative:
        pytest.skip("has no law to sample from")
    first, second, other = (model.dist.sampler(seed).sample(30) for seed in (7, 7, 8))
    assert bits(list(first)) == bits(list(second))
    only_one = isinstance(model.dist, st.PointMassDistribution)
    assert (bits(list(first)) == bits(list(other))) == only_one
    assert len(first) == 30
    assert len(model.dist.sampler(1).sample(0)) == 0
    one = model.dist.sampler(7).sample()
    assert bits(one) == bits(model.dist.sampler(7).sample())
    assert model.dist.log_density(one) > -math.inf


def test_a_fit_to_drawn_rows_comes_near_the_parameters(model):
    if not model.generative:
        pytest.skip("has no law to sample from")
    rows = list(model.dist.sampler(29).sample(4000))
    fitted = model.estimator.estimate(None, stat(model, rows))
    truth = np.array(model.parameters(model.dist))
    error = np.abs(np.array(model.parameters(fitted)) - truth)
    assert (error <= model.close * (1.0 + np.abs(truth))).all()


def under_a_strong_prior(model, dist):
    """Return the fit to five rows whose prior is `dist`, of a huge weight."""
    estimator = dist.estimator(1e9)
    accumulator = estimator.accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(model.rows[:5])
    accumulator.seq_update(payload, np.ones(5), dist)
    return estimator.estimate(5.0, accumulator.value())


def test_a_model_is_the_fixed_point_of_a_strong_prior(model):
    """With `pseudo_count` the prior is the model: it comes back, and so does what came back.

    Only the pseudo-count of a probability to be missing, or to be zero, is spread evenly over both cases.
    """
    fitted = under_a_strong_prior(model, model.dist)
    evenly = sum(repr(model.dist).count(f"{kind}Distribution") for kind in ("Optional", "ZeroInflated", "Hurdle"))
    pairs = zip(model.parameters(fitted), model.parameters(model.dist), strict=True)
    moved = [found for found, wanted in pairs if found != pytest.approx(wanted, rel=1e-5, abs=1e-5)]
    assert len(moved) <= evenly
    assert moved == pytest.approx([0.5] * len(moved), abs=1e-5)
    again = under_a_strong_prior(model, fitted)
    assert model.parameters(again) == pytest.approx(model.parameters(fitted), rel=1e-5, abs=1e-5)


def test_names_and_keys_are_carried_along(leaf):
    kind = type(leaf.estimator)
    arguments = {**{n: getattr(leaf.estimator, n) for n in kind.argument_names()}, "name": "label", "keys": "key"}
    estimator = kind(**arguments)
    fitted = estimator.estimate(None, statistic(estimator, leaf.rows))
    assert (fitted.name, fitted.keys) == ("label", "key")
    assert (fitted.estimator().name, fitted.estimator().keys) == ("label", "key")
    assert (fitted.estimator(1.0).name, fitted.estimator(1.0).keys) == ("label", "key")
    validate_estimator_keys(estimator)


def test_tied_sites_share_the_pooled_statistic(leaf):
    kind = type(leaf.estimator)
    arguments = {**{n: getattr(leaf.estimator, n) for n in kind.argument_names()}, "keys": "shared"}
    pair = st.CompositeEstimator([kind(**arguments), kind(**arguments)])
    validate_estimator_keys(pair)
    half = len(leaf.rows) // 2
    rows = list(zip(leaf.rows[:half], leaf.rows[half:], strict=True))
    a, b = pair.estimate(None, statistic(pair, rows)).dists
    pooled = leaf.estimator.estimate(None, statistic(leaf.estimator, leaf.rows))
    assert leaf.parameters(a) == leaf.parameters(b)
    assert leaf.parameters(a) == pytest.approx(leaf.parameters(pooled), rel=1e-12, abs=1e-12)


def test_without_data_a_law_or_a_message_comes_out(model):
    zero = model.estimator.accumulator_factory().make().value()
    free_range = type(model.estimator) is st.IntegerCategoricalEstimator and model.estimator.min_val is None
    if free_range or isinstance(model.estimator, (st.VonMisesEstimator, st.VonMisesFisherEstimator)):
        with pytest.raises(ValueError, match=r"or min_val= and max_val=|pass pseudo_count and suff_stat"):
            model.estimator.estimate(0.0, zero)
        return
    if "without data" in model.options:
        with pytest.raises(ValueError, match=model.options["without data"]):
            model.estimator.estimate(0.0, zero)
        return
    fitted = model.estimator.estimate(0.0, zero)
    assert type(fitted).from_json(fitted.to_json()).digest() == fitted.digest()


def test_numpy_rows_are_the_same_as_python_rows(leaf):
    try:
        array = np.array(leaf.rows)
    except ValueError:
        pytest.skip("rows have no array")
    if array.dtype.kind not in "biufU" or not isinstance(leaf.rows[0], (int, float, str, bool, np.generic, np.ndarray)):
        pytest.skip("rows have no array")
    if array.dtype.kind == "U" and not all(isinstance(row, str) for row in leaf.rows):
        pytest.skip("rows have no array")
    assert scores(leaf.dist, array).tobytes() == scores(leaf.dist, leaf.rows).tobytes()
    objects = np.empty(len(array), object)
    objects[:] = leaf.rows
    assert scores(leaf.dist, objects).tobytes() == scores(leaf.dist, leaf.rows).tobytes()
    assert bits(statistic(leaf.estimator, array)) == bits(statistic(leaf.estimator, leaf.rows))


def test_every_model_counts_its_free_parameters(model):
    nothing_to_fit = (st.NullDistribution, st.IgnoredDistribution, st.PointMassDistribution)
    assert (free_parameters(model.dist) == 0) == isinstance(model.dist, nothing_to_fit)
