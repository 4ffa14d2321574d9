"""The component axis against the plain definition: one component and one leaf at a time."""

from __future__ import annotations

import numpy as np
import pytest

from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CensoredDistribution,
    CompositeDistribution,
    CompositeEstimator,
    DiagonalGaussianDistribution,
    DiagonalGaussianEstimator,
    ExponentialDistribution,
    GaussianDistribution,
    GaussianEstimator,
    GeometricDistribution,
    HiddenMarkovModelDistribution,
    HurdleDistribution,
    LogGaussianDistribution,
    MixtureDistribution,
    MixtureEstimator,
    MultivariateGaussianDistribution,
    MultivariateGaussianEstimator,
    NegativeBinomialDistribution,
    OptionalDistribution,
    PoissonDistribution,
    TransformDistribution,
    TruncatedDistribution,
    UniformDistribution,
    UniformEstimator,
    ZeroInflatedDistribution,
)
from mixle.stats.stacking.features import INNER, TILE, tiles
from mixle.stats.stacking.frame import FAR
from mixle.stats.stacking.plan import DENSE_LABELS
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.sums import BLOCK
from models import MODELS


def mixture(components, w=None):
    return MixtureDistribution(components, np.full(len(components), 1 / len(components)) if w is None else w)


def labels(count, rng):
    p = rng.dirichlet(np.ones(count))
    return {f"label {i}": float(x) for i, x in enumerate(p)}


def composite(k, rng, levels=5):
    return CompositeDistribution(
        (
            GaussianDistribution(rng.normal(0, 3), rng.uniform(0.5, 2)),
            OptionalDistribution(GaussianDistribution(rng.normal(0, 3), rng.uniform(0.5, 2)), p=rng.uniform(0.1, 0.5)),
            CategoricalDistribution(labels(levels, rng)),
            OptionalDistribution(
                CompositeDistribution(
                    (
                        PoissonDistribution(rng.uniform(1, 9)),
                        OptionalDistribution(CategoricalDistribution(labels(3, rng))),
                    )
                ),
                p=0.3,
            ),
            ExponentialDistribution(rng.uniform(0.5, 3)),
            UniformDistribution(-10.0 - k, 10.0 + k) if k % 2 else UniformDistribution(-12.0, 9.0),
        )
    )


def full(d, rng, spread=1.0):
    a = rng.normal(size=(d, d)) * spread
    return MultivariateGaussianDistribution(rng.normal(0, 3, d), a @ a.T + np.eye(d))


def shells(k):
    seen = TruncatedDistribution(PoissonDistribution(1.0 + k), forbidden=[0])
    return CompositeDistribution(
        (
            TransformDistribution(GaussianDistribution(k / 3, 1.0 + k / 9), "exp"),
            OptionalDistribution(seen, p=0.2 + k / 10),
            TruncatedDistribution(GaussianDistribution(k - 1.0, 2.0), low=-1.0),
            OptionalDistribution(TransformDistribution(ExponentialDistribution(1.0 + k), "sqrt"), p=0.3),
        )
    )


def splits(k):
    counts = PoissonDistribution(1.0 + 2.0 * k)
    return CompositeDistribution(
        (
            ZeroInflatedDistribution(counts, 0.1 + k / 10),
            OptionalDistribution(ZeroInflatedDistribution(NegativeBinomialDistribution(2.0 + k, 0.4), 0.3), p=0.3),
            ZeroInflatedDistribution(GeometricDistribution(0.9 / (k + 1)), 0.5),
            HurdleDistribution(counts, 0.2 + k / 10),
            OptionalDistribution(HurdleDistribution(LogGaussianDistribution(k / 2, 1.0 + k / 9), 0.4), p=0.1 + k / 10),
            HurdleDistribution(TransformDistribution(GaussianDistribution(k / 2, 1.0), "exp"), 0.4),
            HurdleDistribution(OptionalDistribution(GaussianDistribution(k + 1.0, 2.0), p=0.2), 0.4),
        )
    )


def censored(k):
    return CompositeDistribution(
        (
            CensoredDistribution(GaussianDistribution(k - 1.0, 1.0 + k)),
            OptionalDistribution(CensoredDistribution(ExponentialDistribution(1.0 + k)), p=0.2),
            CensoredDistribution(PoissonDistribution(3.0 + 2 * k)),
            CensoredDistribution(NegativeBinomialDistribution(2.0 + k, 0.4)),
        )
    )


def clipped(value, i, limit):
    """Return a value, or an interval around or above it."""
    if value is None:
        return None
    return (limit, None) if value > limit else (value - 1, value + 1) if i % 7 == 0 else value


def mixed(name, rng):
    """Return the mixture of a scene."""
    if name.startswith("composite"):
        return mixture([composite(k, rng, levels=40 if "many" in name else 5) for k in range(4)])
    if name == "normal":
        return mixture([GaussianDistribution(m, 1.0 + m / 9) for m in (0.0, 4.0, 9.0)], [0.5, 0.3, 0.2])
    if name.startswith("diagonal"):
        k = int(name.split("-")[1])
        return mixture([DiagonalGaussianDistribution(rng.normal(0, 2, 3), rng.uniform(0.5, 2, 3)) for _ in range(k)])
    if name == "full":
        return mixture([full(4, rng) for _ in range(3)])
    if name == "full in optional":
        parts = [(OptionalDistribution(full(3, rng), p=0.4), PoissonDistribution(k + 1.0)) for k in range(3)]
        return mixture([CompositeDistribution(part) for part in parts])
    made = {"shells": shells, "splits": splits, "censored": censored}.get(name.split(",")[0])
    if made is not None:
        return mixture([made(k) for k in range(4)])
    return mixture([GaussianDistribution(0.0, 1.0), UniformDistribution(-3.0, 3.0)])  # nothing stacks


def scene(name):
    """Return (mixture, estimator, rows)."""
    model = mixed(name, np.random.RandomState(7))
    rows = model.sampler(3).sample(BLOCK + 333)
    if name == "censored":
        rows = [tuple(map(clipped, row, [i] * 4, (4, 2, 9, 9))) for i, row in enumerate(rows)]
    if name == "censored, every row by its own interval":
        rows = [tuple(None if x is None else (x, x + 1 + i % 3) for x in row) for i, row in enumerate(rows)]
    if name in ("normal", "families differ"):
        rows = np.array(rows)
    return model, model.estimator(), rows


SCENES = [
    "normal",
    "diagonal-1",
    "diagonal-2",
    "diagonal-17",
    "full",
    "full in optional",
    "composite",
    "composite many",
    "shells",
    "splits",
    "censored",
    "censored, every row by its own interval",
    "families differ",
]


def plain(model, payload):
    """Return row log-densities and responsibilities by the definition."""
    logs = model.seq_component_log_density(payload) + np.log(model.w)
    top = logs.max(axis=1, keepdims=True)
    total = np.exp(logs - top).sum(axis=1, keepdims=True)
    return (np.log(total) + top)[:, 0], np.exp(logs - top) / total


def flat(value):
    """Return all numbers of a statistic, moments as (weight, mean, variance)."""
    if hasattr(value, "scatter"):
        w = value.weight
        return [w, *np.ravel(value.centre + value.shift), *np.ravel(value.scatter / w if w else value.scatter)]
    if isinstance(value, dict):
        return [x for key in sorted(value, key=repr) for x in flat(value[key])]
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in flat(item)]
    return [] if value is None else list(np.ravel(value))


@pytest.mark.parametrize("name", SCENES)
def test_scores_and_statistics_equal_the_definition(name):
    model, estimator, rows = scene(name)
    payload = model.dist_to_encoder().seq_encode(rows)
    density, r = plain(model, payload)
    np.testing.assert_allclose(model.seq_log_density(payload), density, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.seq_posterior(payload), r, rtol=1e-9, atol=1e-12)

    accumulator = estimator.accumulator_factory().make()
    total, left_out = accumulator.seq_update_scored(payload, None, model)
    assert left_out == 0
    assert total == pytest.approx(density.sum(), rel=1e-13)
    value = accumulator.value()
    assert isinstance(value, StackedStatistic) == (name != "families differ")
    counts, children = (value.counts, value.children) if isinstance(value, StackedStatistic) else value
    np.testing.assert_allclose(counts, r.sum(axis=0), rtol=1e-12)
    for k, child in enumerate(children):
        one = model.components[k].estimator().accumulator_factory().make()
        one.seq_update(
            payload.of(k) if hasattr(payload, "of") else payload, np.ascontiguousarray(r[:, k]), model.components[k]
        )
        np.testing.assert_allclose(flat(child), flat(one.value()), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SCENES)
def test_a_row_has_the_same_bits_alone_and_among_others(name):
    model, _, rows = scene(name)
    encoder = model.dist_to_encoder()
    whole = model.seq_log_density(encoder.seq_encode(rows))
    for part in (slice(0, 1), slice(5, 12), slice(100, 777), slice(3, None, 7), slice(BLOCK - 3, None)):
        np.testing.assert_array_equal(model.seq_log_density(encoder.seq_encode(rows[part])), whole[part])


@pytest.mark.parametrize("columns", [INNER // 2 - 1, INNER // 2, INNER // 2 + 40])
def test_wide_rows_on_both_sides_of_the_inner_cut(columns):
    rng = np.random.RandomState(1)
    model = mixture([DiagonalGaussianDistribution(rng.normal(size=columns), np.ones(columns)) for _ in range(3)])
    rows = rng.normal(size=(200, columns))
    np.testing.assert_allclose(model.seq_log_density(rows), plain(model, rows)[0], rtol=1e-12)
    np.testing.assert_array_equal(model.seq_log_density(rows[17:18]), model.seq_log_density(rows)[17:18])


@pytest.mark.parametrize("count", [1, 2, TILE, TILE + 1, TILE + 8, TILE + 9, 2 * TILE + 8, 2 * TILE + 9, 70])
def test_tiles_cover_the_components_and_are_never_thin(count):
    cuts = tiles(count)
    assert [a for a, _ in cuts] == [0, *(b for _, b in cuts[:-1])]
    assert cuts[-1][1] == count
    assert all(b - a == TILE for a, b in cuts[:-1])
    assert len(cuts) == 1 or 9 <= cuts[-1][1] - cuts[-1][0] <= 24


@pytest.mark.parametrize("count", [DENSE_LABELS, DENSE_LABELS + 1])
def test_labels_on_both_sides_of_the_one_hot_limit(count):
    rng = np.random.RandomState(2)
    model = mixture([CategoricalDistribution(labels(count, rng)) for _ in range(3)])
    rows = model.sampler(1).sample(500) + ["label 0"]
    payload = model.dist_to_encoder().seq_encode(rows)
    density, r = plain(model, payload)
    np.testing.assert_allclose(model.seq_log_density(payload), density, rtol=1e-12)
    accumulator = MixtureEstimator([CategoricalEstimator()] * 3).accumulator_factory().make()
    accumulator.seq_update(payload, np.ones(len(rows)), model)
    for k, child in enumerate(accumulator.value().children):
        for label in set(rows):
            expected = r[[i for i, x in enumerate(rows) if x == label], k].sum()
            assert child[label] == pytest.approx(expected, rel=1e-12)


def test_labels_the_model_does_not_list_are_left_out_and_counted():
    model = mixture([CategoricalDistribution({"a": 0.5, "b": 0.5}), CategoricalDistribution({"a": 1.0})])
    payload = model.dist_to_encoder().seq_encode(["a", "c", "b", "c"])
    assert np.isneginf(model.seq_log_density(payload)).tolist() == [False, True, False, True]
    accumulator = model.estimator().accumulator_factory().make()
    _, left_out = accumulator.seq_update_scored(payload, None, model)
    assert left_out == 2
    assert accumulator.value().counts.sum() == pytest.approx(2.0)


def test_rows_outside_of_a_shell_are_left_out_and_counted():
    model = mixture([TransformDistribution(GaussianDistribution(k, 1.0), "exp") for k in (0.0, 1.0)])
    payload = model.dist_to_encoder().seq_encode([0.5, -1.0, 2.0, 0.0])
    assert np.isneginf(model.seq_log_density(payload)).tolist() == [False, True, False, True]
    accumulator = model.estimator().accumulator_factory().make()
    _, left_out = accumulator.seq_update_scored(payload, None, model)
    assert left_out == 2
    value = accumulator.value()
    assert isinstance(value, StackedStatistic)
    assert sum(child.accepted_weight for child in value.children) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", [ZeroInflatedDistribution, HurdleDistribution])
@pytest.mark.parametrize("pi", [0.0, 0.4, 1.0])
def test_shares_of_zeros_at_their_ends(kind, pi):
    model = mixture([kind(PoissonDistribution(lam), pi) for lam in (0.0, 1.0, 800.0)], [0.2, 0.3, 0.5])
    rows = [0, 0, 1, 3, 790, 0, 2000]
    payload = model.dist_to_encoder().seq_encode(rows)
    with np.errstate(all="ignore"):
        alone = np.log(np.exp(model.seq_component_log_density(payload) + np.log(model.w)).sum(axis=1))
    near = alone > -600.0
    np.testing.assert_allclose(model.seq_log_density(payload)[near], alone[near], rtol=1e-12)
    accumulator = model.estimator().accumulator_factory().make()
    accumulator.seq_update_scored(payload, None, model)
    r = model.seq_posterior(payload)
    assert isinstance(accumulator.value(), StackedStatistic)
    for k, child in enumerate(accumulator.value().children):
        one = model.components[k].estimator().accumulator_factory().make()
        one.seq_update(payload, np.ascontiguousarray(r[:, k]), model.components[k])
        np.testing.assert_allclose(flat(child), flat(one.value()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", [PoissonDistribution(3.0), GeometricDistribution(0.3)])
@pytest.mark.parametrize("kind", [ZeroInflatedDistribution, HurdleDistribution])
def test_a_start_of_shares_of_zeros_is_what_each_component_makes_of_its_rows(kind, base):
    model = mixture([kind(base, 0.4), kind(base, 0.1)])
    rows = model.sampler(1).sample(300)
    estimator, payload = model.estimator(), model.dist_to_encoder().seq_encode(rows)
    given = np.random.RandomState(3).uniform(size=(2, 304))
    given[:, 300:] = 0.0
    accumulator = estimator.accumulator_factory().make()
    accumulator.initialize_given(payload, 300, lambda start, stop: given.copy(), np.random.RandomState(1))
    assert isinstance(accumulator.value(), StackedStatistic)
    for k, child in enumerate(accumulator.value().children):
        one = estimator.estimators[k].accumulator_factory().make()
        one.seq_initialize(payload, given[k, :300].copy(), np.random.RandomState(1))
        np.testing.assert_allclose(flat(child), flat(one.value()), rtol=1e-12)


@pytest.mark.parametrize("base", [GaussianDistribution(0.0, 4.0), PoissonDistribution(3.0)])
def test_a_start_of_censored_rows_is_what_each_component_makes_of_its_rows(base):
    model = mixture([CensoredDistribution(base)] * 2)
    rows = [clipped(x, i, 3) for i, x in enumerate(base.sampler(1).sample(299).tolist())]
    rows.append((-9, -5))  # what stands for it is no count
    estimator, payload = model.estimator(), model.dist_to_encoder().seq_encode(rows)
    given = np.random.RandomState(3).uniform(size=(2, 304))
    given[:, 300:] = 0.0
    accumulator = estimator.accumulator_factory().make()
    accumulator.initialize_given(payload, 300, lambda start, stop: given.copy(), np.random.RandomState(1))
    assert isinstance(accumulator.value(), StackedStatistic)
    for k, child in enumerate(accumulator.value().children):
        one = estimator.estimators[k].accumulator_factory().make()
        one.seq_initialize(payload, given[k, :300].copy(), np.random.RandomState(1))
        np.testing.assert_allclose(flat(child), flat(one.value()), rtol=1e-12)


def test_shells_that_differ_are_called_one_by_one():
    model = mixture([TruncatedDistribution(GaussianDistribution(0.0, 1.0), low=low) for low in (-1.0, 0.0)])
    rows = model.sampler(1).sample(300)
    payload = model.dist_to_encoder().seq_encode(rows)
    alone = [part.seq_log_density(part.dist_to_encoder().seq_encode(rows)) for part in model.components]
    np.testing.assert_allclose(model.seq_log_density(payload), np.logaddexp(*alone) + np.log(0.5), rtol=1e-12)
    accumulator = model.estimator().accumulator_factory().make()
    accumulator.seq_update(payload, np.ones(len(rows)), model)
    assert not isinstance(accumulator.value(), StackedStatistic)


def test_a_default_value_scores_labels_that_are_not_listed():
    model = mixture(
        [CategoricalDistribution({"a": 1.0}, default_value=0.1), CategoricalDistribution({"a": 0.5, "b": 0.5})]
    )
    payload = model.dist_to_encoder().seq_encode(["a", "b", "z"])
    np.testing.assert_allclose(model.seq_log_density(payload)[:2], plain(model, payload)[0][:2], rtol=1e-13)
    assert model.seq_log_density(payload)[2] == pytest.approx(np.log(0.5 * 0.1 / 1.1))


@pytest.mark.parametrize("distance", [FAR * 0.9, FAR * 2.1, 1e6, 1e9])
def test_components_that_lie_apart_keep_their_variances(distance):
    rng = np.random.RandomState(3)
    near, far = rng.normal(0, 1, 4000), distance + rng.normal(0, 1, 4000)
    rows = np.concatenate([near, far])
    model = mixture([GaussianDistribution(0.1, 1.1), GaussianDistribution(distance, 0.9)])
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    accumulator = estimator.accumulator_factory().make()
    accumulator.seq_update(rows, np.ones(len(rows)), model)
    fitted = estimator.estimate(float(len(rows)), accumulator.value())
    # about a common centre the scatter keeps 1e-10 of its digits, about centres of their own all that the rows have
    kept = 1e-10 if distance < FAR else 1e-13
    assert fitted.components[0].sigma2 == pytest.approx(near.var(), rel=kept)
    assert fitted.components[1].sigma2 == pytest.approx((far - distance).var(), rel=max(kept, 1e-13 * distance / 1e3))


def fit(estimator, model, rows, steps):
    payload = model.dist_to_encoder().seq_encode(rows)
    for _ in range(steps):
        accumulator = estimator.accumulator_factory().make()
        accumulator.seq_update(payload, np.ones(len(rows)), model)
        model = estimator.estimate(float(len(rows)), accumulator.value())
    return model


def test_two_narrow_clusters_far_apart_from_a_poor_start():
    rng = np.random.RandomState(4)
    rows = np.concatenate([rng.normal(0, 1e-3, 3000), rng.normal(1e6, 1e-3, 2000)])
    start = mixture([GaussianDistribution(10.0, 1.0), GaussianDistribution(1e5, 1e10)])
    model = fit(MixtureEstimator([GaussianEstimator()] * 2), start, rows, 12)
    assert model.components[0].sigma2 == pytest.approx(rows[:3000].var(), rel=1e-9)
    assert model.components[1].sigma2 == pytest.approx((rows[3000:] - 1e6).var(), rel=1e-9)


@pytest.mark.parametrize("shape", ["square", "quadratic"])
def test_far_off_data_from_a_start_at_zero(shape):
    rng = np.random.RandomState(5)
    rows = 1.7e9 + rng.normal(size=(5000, 2))
    if shape == "square":
        start = mixture([DiagonalGaussianDistribution([0.0, 0.0], [1.0, 1.0])])
        estimator = MixtureEstimator([DiagonalGaussianEstimator()])
    else:
        start = mixture([MultivariateGaussianDistribution([0.0, 0.0], np.eye(2))])
        estimator = MixtureEstimator([MultivariateGaussianEstimator()])
    covariance = np.asarray(fit(estimator, start, rows, 1).components[0].covar)
    expected = np.cov((rows - 1.7e9).T, bias=True)
    got = np.diag(covariance) if shape == "square" else covariance
    np.testing.assert_allclose(got, np.diag(np.diag(expected)) if shape == "square" else expected, rtol=1e-9, atol=1e-9)


def test_ill_conditioned_components_are_scored_by_substitution():
    """Components of condition 1e10 in different directions: no common frame serves both."""
    mpmath = pytest.importorskip("mpmath", reason="the reference needs more digits than float64")
    rng = np.random.RandomState(6)
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)]
    covariances = [q @ np.diag([1.0, 1e-5, 1e-10]) @ q.T for q in turns]
    components = [MultivariateGaussianDistribution(rng.normal(size=3), (c + c.T) / 2) for c in covariances]
    model = mixture(components)
    rows = np.array(model.sampler(1).sample(20))
    got = model.seq_log_density(rows)
    with mpmath.workdps(60):
        for row, value in zip(rows, got, strict=True):
            total = mpmath.mpf(0)
            for component in components:
                c = mpmath.matrix(component.covar.tolist())
                y = mpmath.matrix(row.tolist()) - mpmath.matrix(component.mu.tolist())
                q = (y.T * mpmath.inverse(c) * y)[0]
                total += mpmath.exp(-q / 2) / mpmath.sqrt((2 * mpmath.pi) ** 3 * mpmath.det(c)) / 2
            assert value == pytest.approx(float(mpmath.log(total)), rel=1e-9)


def test_weights_equal_repeated_rows():
    model, estimator, rows = scene("composite")
    rows, times = rows[:300], np.random.RandomState(8).randint(0, 4, 300)
    repeated = [row for row, count in zip(rows, times, strict=True) for _ in range(count)]
    encoder = model.dist_to_encoder()
    weighted, plainly = estimator.accumulator_factory().make(), estimator.accumulator_factory().make()
    one, _ = weighted.seq_update_scored(encoder.seq_encode(rows), times.astype(float), model)
    two, _ = plainly.seq_update_scored(encoder.seq_encode(repeated), None, model)
    assert one == pytest.approx(two, rel=1e-12)
    np.testing.assert_allclose(flat(weighted.value().children), flat(plainly.value().children), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SCENES)
def test_combine_and_from_value(name):
    model, estimator, rows = scene(name)
    encoder, factory = model.dist_to_encoder(), estimator.accumulator_factory()

    def statistic(part):
        accumulator = factory.make()
        accumulator.seq_update(encoder.seq_encode(part), np.ones(len(part)), model)
        return accumulator.value()

    first, second, whole = statistic(rows[:1000]), statistic(rows[1000:]), statistic(rows)
    both = factory.make().from_value(first).combine(second)
    np.testing.assert_allclose(flat_any(both.value()), flat_any(whole), rtol=1e-10, atol=1e-12)
    for zero_first in (True, False):
        accumulator = factory.make() if zero_first else factory.make().from_value(first)
        accumulator.combine(first if zero_first else factory.make().value())
        assert flat_any(accumulator.value()) == flat_any(first)
    assert flat_any(factory.make().from_value(first).value()) == flat_any(first)
    unstacked = factory.make().from_value(split(first))
    np.testing.assert_allclose(flat_any(unstacked.combine(second).value()), flat_any(whole), rtol=1e-10, atol=1e-12)


def split(value):
    return (value.counts, value.children) if isinstance(value, StackedStatistic) else value


def flat_any(value):
    return flat(split(value))


def test_nested_optionals_count_a_row_once():
    child = OptionalDistribution(
        OptionalDistribution(GaussianDistribution(0.0, 1.0), p=0.2, missing_value="inner"), p=0.5
    )
    model = mixture([child, child])
    rows = [None, "inner", 1.0, None, "inner", 0.5]
    payload = model.dist_to_encoder().seq_encode(rows)
    np.testing.assert_allclose(model.seq_log_density(payload), child.seq_log_density(payload), rtol=1e-13)


def test_uniform_members_keep_their_own_bounds():
    estimator = MixtureEstimator([CompositeEstimator((UniformEstimator(), GaussianEstimator()))] * 2)
    model = mixture(
        [
            CompositeDistribution((UniformDistribution(0.0, 1.0), GaussianDistribution(0.0, 1.0))),
            CompositeDistribution((UniformDistribution(2.0, 3.0), GaussianDistribution(5.0, 1.0))),
        ]
    )
    fitted = fit(estimator, model, [(0.25, 0.0), (0.75, 0.1), (2.5, 5.0), (2.75, 5.1), (9.0, 0.0)], 1)
    assert [(c.dists[0].low, c.dists[0].high) for c in fitted.components] == [(0.25, 0.75), (2.5, 2.75)]


def test_mixtures_nest():
    inner = [
        MixtureDistribution([GaussianDistribution(m, 1.0), GaussianDistribution(m + 1, 2.0)], [0.5, 0.5])
        for m in (0.0, 8.0)
    ]
    model = mixture(inner)
    rows = np.array(model.sampler(1).sample(500))
    density, r = plain(model, rows)
    np.testing.assert_allclose(model.seq_log_density(rows), density, rtol=1e-13)
    accumulator = model.estimator().accumulator_factory().make()
    accumulator.seq_update(rows, np.ones(500), model)
    assert split(accumulator.value())[0] == pytest.approx(r.sum(axis=0))


def test_mixtures_of_unlike_families_nest_at_every_depth():
    unlike = MixtureDistribution([GaussianDistribution(0.0, 1.0), UniformDistribution(5.0, 6.0)], [0.5, 0.5])
    other = MixtureDistribution([GaussianDistribution(1.0, 2.0), UniformDistribution(4.0, 7.0)], [0.3, 0.7])
    model = mixture([unlike, other])
    rows = [float(x) for x in model.sampler(1).sample(300)]
    payload = model.dist_to_encoder().seq_encode(rows)
    one = [np.log(0.5 * unlike.density(x) + 0.5 * other.density(x)) for x in rows]
    np.testing.assert_allclose(model.seq_log_density(payload), one, rtol=1e-12)
    in_composite = mixture(
        [
            CompositeDistribution((unlike, GaussianDistribution(0.0, 1.0))),
            CompositeDistribution((other, GaussianDistribution(3.0, 1.0))),
        ]
    )
    pairs = [(x, 1.0) for x in rows]
    pairs_payload = in_composite.dist_to_encoder().seq_encode(pairs)
    np.testing.assert_allclose(
        in_composite.seq_log_density(pairs_payload), plain(in_composite, pairs_payload)[0], rtol=1e-12
    )
    accumulator = in_composite.estimator().accumulator_factory().make()
    accumulator.seq_update(pairs_payload, np.ones(300), in_composite)
    fitted = in_composite.estimator().estimate(300.0, accumulator.value())
    assert np.isfinite(fitted.seq_log_density(pairs_payload)).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_mixture_scores_each_row_as_its_component_does(name):
    model = MODELS[name]()
    rows = [*model.rows, *model.outside]
    mixture = MixtureDistribution([model.dist, model.dist], [0.25, 0.75])
    alone = model.dist.seq_log_density(model.dist.dist_to_encoder().seq_encode(rows))
    mixed = mixture.seq_log_density(mixture.dist_to_encoder().seq_encode(rows))
    assert np.allclose(mixed, alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("inside", [lambda law: law, lambda law: CompositeDistribution((law, law))])
def test_counts_that_no_model_lists_have_their_own_probabilities(inside):
    laws = [inside(NegativeBinomialDistribution(r, 0.3)) for r in (1.0, 4.0, 30.0)]
    counts = np.random.RandomState(3).poisson(12.0, 5000).tolist()
    rows = counts if isinstance(laws[0], NegativeBinomialDistribution) else list(zip(counts, counts[::-1], strict=True))
    model = MixtureDistribution(laws, [0.2, 0.3, 0.5])
    found = model.seq_log_density(model.dist_to_encoder().seq_encode(rows))
    parts = [law.seq_log_density(law.dist_to_encoder().seq_encode(rows)) for law in laws]
    assert np.allclose(found, np.logaddexp.reduce(np.log(model.w)[:, None] + np.array(parts)), rtol=1e-11)
    part = model.seq_log_density(model.dist_to_encoder().seq_encode(rows[17:40]))
    assert part.tobytes() == found[17:40].tobytes()


def test_states_of_counts_score_as_their_laws():
    laws = [NegativeBinomialDistribution(2.0, 0.5), NegativeBinomialDistribution(20.0, 0.5)]
    chain = HiddenMarkovModelDistribution(laws, [0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    row = [1, 4, 2, 30, 0]
    expected = np.logaddexp.reduce([np.log(0.5) + sum(law.log_density(x) for x in row) for law in laws])
    assert chain.log_density(row) == pytest.approx(expected, rel=1e-12)
