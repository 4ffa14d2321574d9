"""Conservation over the components: clean statistics add up within the bound of rounding, corrupted ones do not."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.models import MODELS

import mixle.stats as st
from mixle.utils.parallel.folding.faults import RemoteFault
from mixle.utils.parallel.folding.fold import fold_results
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Apply, Result, Sizes, execute
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.policies import invariants as checks
from mixle.utils.parallel.policies.invariants import Invariants, limit, residual

RNG = np.random.RandomState(1)
CUBE = RNG.normal(size=(6000, 4)) * 3.0
ROWS = [
    (float(x), "abcde"[label], None if n == 4 else int(n))
    for x, label, n in zip(RNG.normal(size=3000) * 3, RNG.randint(0, 5, 3000), RNG.poisson(4, 3000), strict=True)
]
ROW = st.CompositeEstimator(
    [st.GaussianEstimator(), st.CategoricalEstimator(), st.OptionalEstimator(st.PoissonEstimator(), est_prob=True)]
)
CASES = {
    "normal": (list(CUBE[:, 0]), st.MixtureEstimator([st.GaussianEstimator()] * 3)),
    "at 1.7e9": (list(1.7e9 + CUBE[:, 0]), st.MixtureEstimator([st.GaussianEstimator()] * 3)),
    "diagonal": (CUBE, st.MixtureEstimator([st.DiagonalGaussianEstimator(4)] * 16)),
    "full": (CUBE, st.MixtureEstimator([st.MultivariateGaussianEstimator(4)] * 5)),
    "full at 1e6, ill-conditioned": (
        CUBE * [1e-3, 1.0, 1.0, 1.0] + 1e6,
        st.MixtureEstimator([st.MultivariateGaussianEstimator(4)] * 3),
    ),
    "two scales far apart": (
        np.r_[CUBE[:3000] * 1e-3 + 1e6, CUBE[3000:] * 1e-3],
        st.MixtureEstimator([st.DiagonalGaussianEstimator(4)] * 4),
    ),
    "rows": (ROWS, st.MixtureEstimator([ROW] * 4)),
}
for name in MODELS:
    trio = st.MixtureEstimator([MODELS[name]().estimator] * 3)
    if MODELS[name]().leaf and trio.accumulator_factory().make().stacked:  # the others' statistics are no sums
        CASES[f"mixture of {name}"] = (MODELS[name]().rows, trio)


class Rounds:
    """E-steps over shards in this process, and what the invariants say of them."""

    def __init__(self, rows, estimator, shards=3, weights=None):
        self.handle = LocalEncodedData(rows, estimator, num_shards=Strided(shards), weights=weights)
        encoder = estimator.accumulator_factory().make().acc_to_encoder()
        source = make_source(rows, encoder, Strided(shards), 1, weights, estimator)
        self.shards = {shard: source.encode(shard) for shard in range(shards)}
        self.estimator, self.invariants, self.asked = estimator, Invariants(), []

    def compute(self, task, shards):
        self.asked.append(list(shards))
        return {shard: execute(task, self.shards[shard]) for shard in shards}

    def results(self, model):
        return {shard: execute(Accumulate(self.estimator, model), self.shards[shard]) for shard in self.shards}

    def broken(self, model, results=None):
        task = Accumulate(self.estimator, model)
        return self.invariants.broken(task, self.results(model) if results is None else results, self.compute)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_clean_statistics_add_up_all_along_a_fit(name, weighted):
    rows, estimator = CASES[name]
    weights = np.random.RandomState(3).uniform(0.0, 2.0, len(rows)) if weighted else None
    if weighted:
        weights[::7] = 0.0
    rounds = Rounds(rows, estimator, weights=weights)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    checked = 0
    for _ in range(5):
        assert rounds.broken(model) == []
        checked += sum(found > 0.0 for found in rounds.invariants.last.values())
        model = rounds.handle.pysp_seq_estimate(estimator, model)
    assert len(rounds.asked) <= 3  # the right-hand sides are computed once
    assert len(rounds.invariants.data) == len(rounds.shards)
    assert checked > 0


@pytest.mark.parametrize("name", ["normal", "full", "rows", "at 1.7e9"])
def test_flips_of_high_bits_are_seen(name):
    rows, estimator = CASES[name]
    rounds = Rounds(rows, estimator, shards=1)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    weight, data = rounds.invariants.data[0]
    bound = limit(len(rows))
    missed = []
    for place, array in enumerate(arrays_of(results[0].value)):
        for index in range(array.size):
            for bit in (63, 62, 55, 52, 51, 44):
                before = array.flat[index]
                array.reshape(-1).view(np.uint64)[index] ^= np.uint64(1 << bit)
                found = residual(results[0].value, data, weight)
                if found <= bound and abs(array.flat[index] - before) > 1e-9 * abs(before):
                    missed.append((place, index, bit, before))
                array.flat[index] = before
    assert missed == []


def arrays_of(value):
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind == "f" and value.size else []
    return [array for item in value for array in arrays_of(item)] if isinstance(value, (tuple, list)) else []


def test_nan_and_foreign_shapes_are_broken():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=2)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    results[1].value.counts[0] = math.nan
    assert rounds.broken(model, results) == [1]
    results[0] = results[0].__class__(**{**results[0].__dict__, "value": results[0].value._replace(slots=())})
    assert rounds.broken(model, results) == [0, 1]


def test_labels_count_by_name_not_by_place():
    rows, estimator = CASES["rows"]
    rounds = Rounds(rows, estimator, shards=1)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    weight, data = rounds.invariants.data[0]
    value = results[0].value
    (at,) = [i for i, slot in enumerate(value.slots) if hasattr(slot, "labels")]
    table = value.slots[at]

    def put(labels, counts):
        slots = list(value.slots)
        slots[at] = table._replace(labels=labels, counts=counts)
        return residual(value._replace(slots=tuple(slots)), data, weight)

    assert put(table.labels[::-1], table.counts[:, ::-1]) <= limit(len(rows))
    assert put(table.labels[::-1], table.counts) > limit(len(rows))
    assert put(("z", *table.labels[1:]), table.counts) == math.inf


def test_shards_with_rows_left_out_are_not_told():
    estimator = st.MixtureEstimator([st.UniformEstimator()] * 2)
    model = st.MixtureDistribution([st.UniformDistribution(0.0, 1.0), st.UniformDistribution(0.5, 2.0)], [0.5, 0.5])
    rounds = Rounds([0.25, 0.75, 1.5, 9.0], estimator, shards=1)
    assert rounds.broken(model) == []


@pytest.mark.parametrize("estimator", [st.GaussianEstimator(), MODELS["mixture of unlike families"]().estimator])
def test_what_has_no_invariant_is_left_alone(estimator):
    rounds = Rounds([0.5, 1.0, 5.5, 5.75], estimator, shards=1)
    model = MODELS["mixture of unlike families"]().dist if hasattr(estimator, "estimators") else None
    assert rounds.broken(model) == []


def test_shards_that_were_right_after_all_are_excused():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=2)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    results[0].value.counts[0] *= 1.0 + 1e-13
    assert rounds.broken(model, results) == [0]
    rounds.invariants.excuse([0])
    assert rounds.broken(model, results) == []
    results[0].value.counts[0] *= 1.0 + 1e-9
    assert rounds.broken(model, results) == [0]
    results[1].value.counts[0] = math.nan
    assert rounds.broken(model, results) == [0, 1]
    rounds.invariants.excuse([1])
    assert rounds.broken(model, results) == [0]


def test_another_kind_of_model_on_the_same_rows_is_learnt_anew():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=2)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    assert rounds.broken(model) == []
    rounds.estimator = st.MixtureEstimator([st.OptionalEstimator(st.GaussianEstimator(), est_prob=True)] * 2)
    other = st.MixtureDistribution([st.OptionalDistribution(part, p=0.5) for part in model.components[:2]], [0.5, 0.5])
    encoder = rounds.estimator.accumulator_factory().make().acc_to_encoder()
    source = make_source(rows, encoder, Strided(2), 1, None, rounds.estimator)
    rounds.shards = {shard: source.encode(shard) for shard in range(2)}
    assert rounds.broken(other) == []
    assert len(rounds.asked) == 2


def test_other_tasks_have_none():
    rounds = Rounds([1.0, 2.0], st.GaussianEstimator(), shards=1)
    task = Apply(len)
    assert rounds.invariants.broken(task, {0: execute(task, rounds.shards[0])}, rounds.compute) == []


@pytest.mark.parametrize("name", MODELS)
def test_a_component_that_won_no_row_trips_no_check(name):
    """Conservation, the identities and the guard, in each round in which they look at other blocks."""
    model = MODELS[name]()
    estimator = st.MixtureEstimator([model.estimator] * 2)
    rounds = Rounds(model.rows, estimator)
    mixture = st.MixtureDistribution([model.dist, model.dist], [1.0, 0.0])
    for turn in (14, 15, 127):
        task = Accumulate(estimator, mixture, True, turn)
        results = rounds.compute(task, rounds.shards)
        assert all(result.error is None for result in results.values())
        assert rounds.invariants.broken(task, results, rounds.compute) == []
        nobs, value = fold_results(estimator, [results[shard] for shard in sorted(results)], "a test", guard=True)
        assert nobs == len(model.rows)
        found = rounds.invariants.total_residual(estimator, value)
        assert found is None or found <= 1.0


def test_signed_features_that_cancel_are_measured_by_their_size():
    """Sines that add up to nearly nothing leave a rounding error that is large beside their sum."""
    angles = np.random.RandomState(4).vonmises(0.0, 2.0, 400)
    rows = np.concatenate([angles, -angles])
    estimator = st.MixtureEstimator([st.VonMisesEstimator()] * 2)
    rounds = Rounds(rows, estimator, shards=1)
    model = st.MixtureDistribution([st.VonMisesDistribution(0.4, 2.0), st.VonMisesDistribution(-0.3, 2.5)], [0.5, 0.5])
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    (_, data), sizes = rounds.invariants.data[0], rounds.invariants.sizes[0]
    assert abs(data.slots[0].sums[0, 1]) < 1e-12 * sizes.slots[0].sums[0, 1]
    np.testing.assert_allclose(sizes.slots[0].sums[0], np.abs([np.cos(rows), np.sin(rows)]).sum(axis=1), rtol=1e-13)
    results[0].value.slots[0].sums[1, 1] += 1e-12 * sizes.slots[0].sums[0, 1]
    assert rounds.broken(model, results) == [0]


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_cancel_in_each_component_raise_no_alarm(seed):
    """Components that are nearly flat share each row: not only the total but every sum nearly cancels."""
    angles = np.random.RandomState(seed).vonmises(0.0, 2.0, 50)
    around = np.concatenate([angles, angles + np.pi, -angles, np.pi - angles])
    rows = np.random.RandomState(seed).permutation(np.remainder(around + np.pi, 2.0 * np.pi) - np.pi)
    rounds = Rounds(rows, st.MixtureEstimator([st.VonMisesEstimator()] * 2), shards=1)
    model = st.MixtureDistribution(
        [st.VonMisesDistribution(0.4, 1e-6), st.VonMisesDistribution(-0.3, 1e-6)], [0.5, 0.5]
    )
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    sums = results[0].value.slots[0].sums
    assert (np.abs(sums) < 1e-5 * rounds.invariants.sizes[0].slots[0].sums).all()


def test_a_scatter_that_is_summed_again_far_from_zero_keeps_its_mean():
    """Its second pass is about a mean that was rounded: what that took away is not lost."""
    rows = 1.7e9 + np.random.RandomState(4).normal(size=200)
    rows[:3] = 1.7e9 + 9.0 + np.array([0.0, 2.0, 2.0]) * 2.0**-21
    estimator = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    rounds = Rounds(rows, estimator, shards=1)
    near = st.GaussianDistribution(1.7e9 + 9.0, 1e-3)
    model = st.MixtureDistribution([st.GaussianDistribution(1.7e9, 1.0), near], [0.5, 0.5])
    assert rounds.broken(model) == []
    assert rounds.invariants.last[0] < 0.5


# Chains and topics


def begun(name, shards=2):
    """Return rounds over a model's own rows, and the results of its first one, which are all right."""
    made = MODELS[name]()
    rounds = Rounds(made.rows, made.estimator, shards)
    model = rounds.handle.pysp_seq_initialize(made.estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    return rounds, model, results


@pytest.mark.parametrize("name", ["hidden markov", "latent dirichlet allocation"])
def test_the_elements_of_sequences_are_what_states_and_topics_share(name):
    rounds, model, results = begun(name)
    assert sorted(rounds.invariants.data) == [0, 1]
    parts = [getattr(one.value, "emissions", getattr(one.value, "topics", None)) for one in results.values()]
    count = len if name == "hidden markov" else lambda words: sum(times for _, times in words)
    elements = [sum(map(count, MODELS[name]().rows[shard::2])) for shard in (0, 1)]
    assert [weight for weight, _ in rounds.invariants.data.values()] == elements
    _, whole = fold_results(rounds.estimator, [results[0], results[1]])
    assert rounds.invariants.total_residual(rounds.estimator, whole) <= 1.0
    parts[1].counts[0] *= 1.0 + 1e-9
    assert rounds.broken(model, results) == [1]
    parts[0].counts[0] = math.nan
    assert rounds.broken(model, results) == [0, 1]
    _, whole = fold_results(rounds.estimator, [results[0], results[1]])
    assert not rounds.invariants.total_residual(rounds.estimator, whole) <= 1.0


@pytest.mark.parametrize("name", ["hidden markov", "hidden markov of unlike families with a terminal state"])
@pytest.mark.parametrize("field", ["state_counts", "init_counts", "trans_counts"])
def test_the_counts_of_a_chain_are_held_against_each_other(name, field):
    rounds, model, results = begun(name)
    before = getattr(results[1].value, field).copy()
    getattr(results[1].value, field).flat[0] *= 1.0 + 1e-9
    assert rounds.broken(model, results) == [1]
    getattr(results[1].value, field).flat[0] = math.nan
    assert rounds.broken(model, results) == [1]
    assert rounds.invariants.last[1] == math.inf
    getattr(results[1].value, field)[...] = before
    assert rounds.broken(model, results) == []
    results[1] = replace(results[1], value=results[1].value._replace(**{field: np.ones((7, 7))}))
    assert rounds.broken(model, results) == [1]
    assert rounds.invariants.last[1] == math.inf


def test_a_chain_that_ends_in_a_state_has_no_other_sums_than_its_counts():
    rounds, _, results = begun("hidden markov of unlike families with a terminal state")
    assert (rounds.asked, rounds.invariants.data) == ([], {})
    assert rounds.invariants.total_residual(rounds.estimator, results[0].value) is None


def test_the_terms_of_sequences_are_their_elements():
    for name in ("hidden markov", "latent dirichlet allocation"):
        _, _, results = begun(name)
        value = results[0].value
        counts = getattr(value, "state_counts", getattr(value, "topic_counts", None))
        assert checks._terms(results[0]) == int(counts.sum()) > results[0].rows
        assert checks._terms(replace(results[0], rows=10**6)) == 10**6
        counts[0] = math.nan
        assert checks._terms(results[0]) == results[0].rows
    assert checks._terms(Result(0, 7, 7.0, None, None)) == 7


# Right-hand sides


def labelled(second, rows):
    """Return the rounds of a mixture of two tables of labels; the first has "a" alone."""
    rounds = Rounds(rows, st.MixtureEstimator([st.CategoricalEstimator()] * 2), shards=2)
    parts = [st.CategoricalDistribution({"a": 1.0}), st.CategoricalDistribution(second)]
    model = st.MixtureDistribution(parts, [0.5, 0.5])
    assert rounds.broken(model) == []
    return rounds


def test_where_one_component_supports_not_all_rows_the_next_one_is_asked():
    rounds = labelled({"a": 0.5, "b": 0.5}, ["a", "a", "a", "b"])
    assert (rounds.asked, sorted(rounds.invariants.data)) == ([[0, 1], [1]], [0, 1])
    rounds = labelled({"b": 1.0}, ["a", "a", "a", "b"])
    assert (rounds.asked, sorted(rounds.invariants.data)) == ([[0, 1], [1]], [0])


def test_the_estimator_of_a_user_has_no_mixture_of_one_component():
    class Own(st.MixtureEstimator):
        pass

    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, Own(estimator.estimators), shards=2)
    assert rounds.broken(rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)) == []
    assert (rounds.asked, rounds.invariants.data) == ([], {})


def test_where_sizes_cannot_be_computed_the_sums_stand_for_them():
    rows = np.random.RandomState(4).vonmises(0.0, 2.0, 200)
    rounds = Rounds(rows, st.MixtureEstimator([st.VonMisesEstimator()] * 2), shards=2)
    model = rounds.handle.pysp_seq_initialize(rounds.estimator, 3, 0.5)
    compute = rounds.compute

    def failing(task, shards):
        if not isinstance(task, Sizes):
            return compute(task, shards)
        return {0: Result(0, 100, 0.0, None, None, {}, RemoteFault("E", "no")), **compute(task, [1])}

    rounds.compute = failing
    assert rounds.broken(model) == []
    data, sizes = rounds.invariants.data, rounds.invariants.sizes
    assert sizes[0] is data[0][1]
    assert (sizes[1].slots[0].sums > np.abs(data[1][1].slots[0].sums)).any()


def test_a_shard_without_weight_has_no_means_and_must_stay_without():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=2, weights=np.where(np.arange(len(rows)) % 2 == 0, 1.0, 0.0))
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    assert rounds.invariants.last[1] == 0.0
    results[1].value.slots[0].shift[0] = 1.0  # of no row
    assert rounds.broken(model, results) == []
    results[1].value.slots[0].weight[0] = 1e-3
    assert rounds.broken(model, results) == [1]


def test_statistics_of_unlike_shapes_are_looked_at_by_themselves():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=3)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    two = st.MixtureDistribution(model.components[:2], [0.5, 0.5])
    other = execute(Accumulate(st.MixtureEstimator([st.GaussianEstimator()] * 2), two), rounds.shards[1])
    results[1] = other
    assert rounds.broken(model, results) == []  # two components share the rows as well as three
    assert rounds.invariants.last[1] > 0.0
    other.value.counts[0] *= 1.0 + 1e-9
    assert rounds.broken(model, results) == [1]
    assert math.isfinite(rounds.invariants.last[1])
    results[2] = replace(results[2], value=results[2].value._replace(slots=None))
    assert rounds.broken(model, results) == [1, 2]
    assert rounds.invariants.last[2] == math.inf


def test_tables_of_unlike_labels_are_looked_at_by_themselves():
    rows, estimator = CASES["rows"]
    rounds = Rounds(rows, estimator, shards=2)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    value = results[1].value
    slots = [
        slot._replace(labels=slot.labels[::-1], counts=slot.counts[:, ::-1]) if hasattr(slot, "labels") else slot
        for slot in value.slots
    ]
    results[1] = replace(results[1], value=value._replace(slots=tuple(slots)))
    assert rounds.broken(model, results) == []
    assert rounds.invariants.last[1] > 0.0


def test_a_fold_of_another_shape_is_as_wrong_as_can_be():
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=2)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    _, whole = fold_results(estimator, [results[0], results[1]])
    assert rounds.invariants.total_residual(estimator, whole._replace(slots=())) == math.inf
    assert rounds.invariants.total_residual(estimator, whole) <= 1.0


def test_what_was_laid_out_for_many_sets_of_shards_is_laid_out_again(monkeypatch):
    monkeypatch.setattr(checks, "REMEMBERED", 2)
    rows, estimator = CASES["normal"]
    rounds = Rounds(rows, estimator, shards=4)
    model = rounds.handle.pysp_seq_initialize(estimator, 3, 0.5)
    results = rounds.results(model)
    assert rounds.broken(model, results) == []
    results[3].value.counts[0] *= 1.0 + 1e-9
    for _ in range(2):
        for some in ([0, 1], [0, 3], [1, 2], [2, 3]):
            found = rounds.broken(model, {shard: results[shard] for shard in some})
            assert found == [shard for shard in some if shard == 3]
            assert len(rounds.invariants.alike) <= 2
            assert len(rounds.invariants.wanted) <= 2
