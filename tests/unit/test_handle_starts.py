"""Starts of real models: seeded where draws fall, equal on equal maps, equal to rounding across maps."""

import numpy as np
import pytest
from fold_support import SHARDS

from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    GaussianEstimator,
    MixtureEstimator,
    OptionalEstimator,
    PoissonEstimator,
    SequenceEstimator,
)
from mixle.stats.contract import Column
from mixle.utils.parallel.folding.draws import draws
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.folding.starts import join_columns
from mixle.utils.parallel.planner import LocalEncodedData


def table(n=600, seed=0):
    rng = np.random.RandomState(seed)
    z = rng.randint(3, size=n)
    labels = np.array(list("abcde"))[(z + rng.randint(3, size=n)) % 5]
    missing = rng.rand(n) < 0.1
    return [
        (float(x), str(c), int(k), None if m else float(x))
        for x, c, k, m in zip(rng.normal(4.0 * z, 1.0), labels, rng.poisson(2 + 3 * z), missing, strict=True)
    ]


def mixture(k=3):
    def component():
        return CompositeEstimator(
            [GaussianEstimator(), CategoricalEstimator(), PoissonEstimator(), OptionalEstimator(GaussianEstimator())]
        )

    return MixtureEstimator([component() for _ in range(k)])


def started(shards, estimator=None, rows=None, seed=5, **controls):
    estimator = mixture() if estimator is None else estimator
    handle = LocalEncodedData(table() if rows is None else rows, estimator, num_shards=shards, **controls)
    return handle.pysp_seq_initialize(estimator, seed, 0.3)


def numbers_of(model):
    """Return the parameters that a start of `mixture` has, in one array."""
    values = [*model.w]
    for component in model.components:
        gaussian, categorical, poisson, optional = component.dists
        values += [gaussian.mu, gaussian.sigma2, poisson.lam, optional.p, optional.dist.mu]
        values += [categorical.density(label) for label in "abcde"]
    return np.array(values, dtype=float)


@pytest.mark.parametrize("shards", [*SHARDS, Contiguous(4), 300])
@pytest.mark.parametrize("sub_chunks", [1, 3])
def test_starts_agree_across_shard_maps_to_rounding(shards, sub_chunks):
    np.testing.assert_allclose(
        numbers_of(started(shards, sub_chunks=sub_chunks)), numbers_of(started(1)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("shards", SHARDS[1:])
def test_equal_maps_start_with_equal_bits(shards):
    assert started(shards).digest() == started(shards, chunk_workers=3).digest()
    assert started(shards).digest() != started(shards, seed=6).digest()


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("estimator", [mixture(), GaussianEstimator()], ids=["seeded", "plain"])
def test_a_start_advances_the_generator_by_as_much_whatever_the_shards(shards, estimator):
    rows = table() if hasattr(estimator, "num_start_components") else [row[0] for row in table()]
    states = []
    for count in (1, shards):
        state = np.random.RandomState(4)
        started(count, estimator, rows, seed=state)
        states.append(state.randint(2**31))
    assert states[0] == states[1]


def test_centres_are_seeded_in_all_clusters():
    model = started(4, MixtureEstimator([GaussianEstimator() for _ in range(3)]), [row[0] for row in table()])
    assert sorted(round(component.mu / 4.0) for component in model.components) == [0, 1, 2]


def test_rows_without_fixed_columns_start_too():
    estimator = MixtureEstimator([SequenceEstimator(GaussianEstimator()) for _ in range(2)])
    rows = [[float(i), float(i + 1)] for i in range(40)]
    model = LocalEncodedData(rows, estimator, num_shards=4).pysp_seq_initialize(estimator, 0, 1.0)
    assert np.isfinite(model.log_density(rows[3]))


def test_T15_more_components_than_rows_are_refused_before_any_work():
    rows = np.random.RandomState(0).randint(100, size=30).astype(float)
    estimator = MixtureEstimator([GaussianEstimator() for _ in range(100)])
    with pytest.raises(ValueError, match=r"n=30\) .*K=100"):
        LocalEncodedData(rows, estimator).pysp_seq_initialize(estimator, 0, 0.5)


@pytest.mark.parametrize("rows", [[0.0, 0.1, 0.2, 9.0, 9.1], [0.0, 1.0, 2.0, 50.0, 51.0, 52.0, 49.0]])
@pytest.mark.parametrize("shards", [1, 3])
def test_two_clusters_of_few_rows_start_in_each_from_every_seed(rows, shards):
    near, far = ([row for row in rows if (row > 5.0) is side] for side in (False, True))
    estimator = MixtureEstimator([GaussianEstimator() for _ in range(2)])
    handle = LocalEncodedData(rows, estimator, num_shards=shards)
    for seed in range(20):
        low, high = sorted(part.mu for part in handle.pysp_seq_initialize(estimator, seed, 0.1).components)
        assert (low, high) == pytest.approx((np.mean(near), np.mean(far)), abs=0.1)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_start_keeps_eight_rows_for_each_component(shards):
    estimator = MixtureEstimator([GaussianEstimator() for _ in range(2)])
    handle = LocalEncodedData([float(i) for i in range(51)], estimator, num_shards=shards)
    numbers = np.sort(draws(int(np.random.RandomState(7).randint(2**31)), range(51)))
    least = handle.pysp_seq_initialize(estimator, 7, 1e-12).digest()
    assert least == handle.pysp_seq_initialize(estimator, 7, float(numbers[15:17].mean())).digest()
    assert least != handle.pysp_seq_initialize(estimator, 7, float(numbers[16:18].mean())).digest()


def column(values, labels=None, missing=None):
    return Column(np.array(values), labels, None if missing is None else np.array(missing))


def test_codes_of_chunks_are_joined_by_their_labels():
    first = [column([1.0, 2.0]), column([0, 1], ("b", "a"), [False, True])]
    second = [column([3.0]), column([0], ("a",))]
    for order in ([2, 0], [0, 2], [2, 1, 0]):
        numbers, codes = join_columns([first, second], np.array(order))
        assert numbers.values.tolist() == [[1.0, 2.0, 3.0][i] for i in order]
        assert [codes.labels[code] for code in codes.values] == [["b", "a", "a"][i] for i in order]
        assert codes.labels[0] == ["b", "a", "a"][order[0]]
        assert codes.missing.tolist() == [[False, True, False][i] for i in order]


def test_a_column_is_codes_in_all_chunks_or_in_none():
    with pytest.raises(ValueError, match="codes for some chunks and numbers for others"):
        join_columns([[column([0], ("a",))], [column([1.0])]], np.array([0, 1]))
