"""Columns of very many labels: the same bits as of few, at a cost that does not grow with labels × blocks × chunks."""

from __future__ import annotations

import copy
import gc
import math
import pickle

import numpy as np
import pytest

from bits import bits
from mixle.inference import optimize
from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CompositeEstimator,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
    OptionalEstimator,
    kinds,
)
from mixle.stats.contract import Column
from mixle.stats.label_table import LabelTable, held
from mixle.stats.stacking import facts, gather, lookup, running
from mixle.stats.stacking.walk import Walk
from mixle.stats.starts import Centres, distances, in_codes_of
from mixle.stats.sums import exact_sum
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.planner import encoded_data

COUNT = 5000


def mixture(rng, count=COUNT, parts=3):
    weights = rng.dirichlet(np.ones(count), parts)
    laws = [{f"label {i}": float(p) for i, p in enumerate(row)} for row in weights]
    return MixtureDistribution([CategoricalDistribution(law) for law in laws], [0.5, 0.3, 0.2])


def rows_of(rng, count=COUNT, rows=6000):
    """Return labels of which each block and each shard has few, some of them unknown to the model."""
    return [f"label {i}" for i in rng.randint(0, count + 50, rows)]


def everywhere(monkeypatch, many):
    for module in (facts, gather):
        monkeypatch.setattr(module, "MANY", many)
    monkeypatch.setattr(kinds, "_MANY", many)


@pytest.fixture(params=["few", "many"])
def counted(request, monkeypatch):
    """Let all label tables count as long ones, or none."""
    everywhere(monkeypatch, 30 if request.param == "many" else 10**9)


def accumulated(model, rows, estimator=None):
    estimator = estimator or model.estimator()
    accumulator = estimator.accumulator_factory().make()
    payload = model.dist_to_encoder().seq_encode(rows)
    score, left_out = accumulator.seq_update_scored(payload, np.linspace(0.5, 1.5, len(rows)), model)
    return accumulator.value(), score, left_out


@pytest.mark.usefixtures("counted")
def test_counts_of_many_labels_are_the_sums_of_responsibilities():
    rng = np.random.RandomState(1)
    model, rows = mixture(rng), rows_of(rng)
    value, _, left_out = accumulated(model, rows)
    weights = np.linspace(0.5, 1.5, len(rows))
    known = [label in model.components[0].pmap for label in rows]
    assert left_out == len(rows) - sum(known)
    joint = np.array([[w * c.pmap.get(x, 0.0) for c, w in zip(model.components, model.w, strict=True)] for x in rows])
    shares = joint / np.where(known, joint.sum(axis=1), 1.0)[:, None] * weights[:, None]
    for k, child in enumerate(value.children):
        expected = dict.fromkeys(rows, 0.0)
        for label, share in zip(rows, shares[:, k], strict=True):
            expected[label] += share
        assert child == pytest.approx({x: v for x, v in expected.items() if x in model.components[0].pmap}, rel=1e-12)


def test_a_long_table_has_the_bits_of_a_short_one(monkeypatch):
    rng = np.random.RandomState(2)
    model, rows = mixture(rng), rows_of(rng)
    model.components[1].default_value = 0.01  # unknown labels count in one component
    found = []
    for many in (10**9, 30):
        everywhere(monkeypatch, many)
        found.append(bits(accumulated(model, rows)))
        found.append(bits(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))))
    assert found[:2] == found[2:]


@pytest.mark.parametrize("shards", [1, 4])
def test_a_fit_to_many_labels_has_the_bits_of_a_fit_to_few(monkeypatch, shards):
    rng = np.random.RandomState(3)
    rows = [(x if i % 7 else None, float(i % 5)) for i, x in enumerate(rows_of(rng, 400, 3000))]
    part = CompositeEstimator((OptionalEstimator(CategoricalEstimator()), GaussianEstimator()))
    estimator = MixtureEstimator([part] * 3)
    digests = []
    for many in (10**9, 30):
        everywhere(monkeypatch, many)
        with encoded_data(rows, estimator, num_shards=shards) as handle:
            for _ in range(2):  # the second fit finds what the first knew of the chunks
                model = optimize(None, estimator, 4, enc_data=handle, out=None, rng=np.random.RandomState(4))
                digests.append(model.digest())
    assert len(set(digests)) == 1


def test_centres_in_the_codes_of_a_chunk_are_as_near_as_by_label():
    gone = np.array([False, True, False])
    centres = Centres(
        (Column(np.array([2, 0, 1]), ("x", "c", "a"), gone), Column(np.array([0.0, 1.0, 2.0]))), (1.0, 1.0)
    )
    columns = [Column(np.array([0, 1, 2, 1]), ("a", "b", "c")), Column(np.array([0.0, 0.5, 2.0, 9.0]))]
    known = in_codes_of(columns, centres)
    assert known.columns[0].values.tolist() == [0, -1, 2]
    assert known.columns[0].labels is columns[0].labels
    assert known.columns[1] is centres.columns[1]
    assert bits(distances(columns, known)) == bits(distances(columns, centres))


@pytest.mark.usefixtures("counted")
def test_a_changed_model_is_scored_as_it_is_now():
    rng = np.random.RandomState(5)
    model = mixture(rng, 100)
    payload = model.dist_to_encoder().seq_encode([f"label {i}" for i in range(60)])
    before = model.seq_log_density(payload)
    for law in model.components:
        law.pmap["label 3"] *= 2.0
    after = model.seq_log_density(payload)
    np.testing.assert_allclose(after[3] - before[3], np.log(2.0), rtol=1e-12)
    assert bits(np.delete(after, 3)) == bits(np.delete(before, 3))
    for law in model.components:
        del law.pmap["label 4"]
    assert np.isneginf(model.seq_log_density(payload)[4])


def test_the_labels_of_a_model_are_looked_up_once_for_the_shards_of_a_round(monkeypatch):
    everywhere(monkeypatch, 30)
    made = []
    monkeypatch.setattr(facts, "Lookup", type("Counted", (lookup.Lookup,), {"__init__": _count(made, lookup.Lookup)}))
    rows = [f"label {i % 200}" for i in range(1200)]
    estimator = MixtureEstimator([CategoricalEstimator()] * 2)
    with encoded_data(rows, estimator, num_shards=6) as handle:
        optimize(None, estimator, 3, delta=None, enc_data=handle, out=None, rng=np.random.RandomState(0))
        assert 3 <= len(made) <= 5  # rounds, not rounds × shards


def _count(made, plain):
    def begin(self, leaf, members):
        made.append(leaf)
        plain.__init__(self, leaf, members)

    return begin


def test_what_is_known_of_a_chunk_and_of_a_sum_ends_with_them(monkeypatch):
    everywhere(monkeypatch, 30)
    rows = [f"label {i % 200}" for i in range(1200)]
    estimator = MixtureEstimator([CategoricalEstimator()] * 2)
    with encoded_data(rows, estimator, num_shards=3) as handle:
        optimize(None, estimator, 3, enc_data=handle, out=None, rng=np.random.RandomState(0))
        assert lookup._laid
    del handle
    gc.collect()
    assert not lookup._laid
    assert not kinds._places


def test_merged_counts_follow_the_labels_whatever_was_merged_before(monkeypatch):
    monkeypatch.setattr(kinds, "_MANY", 2)
    leaf = CategoricalDistribution({}).leaf
    a, b, c = (kinds.CodeCounts(tuple(text), np.arange(1.0, len(text) + 1.0)) for text in ("abcd", "xcay", "yzb"))
    first = leaf.merge(a, b)
    one, other = leaf.merge(first, c), leaf.merge(first, c)  # the places of `first` have gone to `one`
    assert one.labels == other.labels == tuple("abcdxyz")
    assert one.counts.tolist() == other.counts.tolist() == [1 + 3, 2 + 3, 3 + 2, 4, 1, 4 + 1, 2]
    assert first.labels == tuple("abcdxy")


def test_a_chunk_of_few_of_many_labels_gets_a_table_of_those(monkeypatch):
    everywhere(monkeypatch, 30)
    model = mixture(np.random.RandomState(6))
    payload = model.dist_to_encoder().seq_encode(["label 4000", "label 7", "unknown", "label 7"])
    walk = Walk(model.components, model.w, np.log(model.w), payload, 4)
    assert walk.features.laid[0].labels == ("label 7", "label 4000")
    assert walk.natural.table.shape == (3, 3)


SETS = {
    "text": list("abacbbcd"),
    "integers": [3, 1, 3, 7, 7, 7, 1, 2],
    "pairs": [("a", 1), ("b", 2), ("a", 1), ("c", 0)] * 2,
}


@pytest.mark.parametrize("labels", SETS.values(), ids=SETS)
@pytest.mark.parametrize("asked", [False, True], ids=["arrays", "mapping"])
def test_a_law_in_arrays_says_what_its_mapping_says(labels, asked):
    rows = [(x, math.sin(i)) for i, x in enumerate(labels * 5)]
    part = CompositeEstimator([CategoricalEstimator(), GaussianEstimator()])
    estimator = MixtureEstimator([part] * 2)
    fitted, other = (
        optimize(rows, estimator, 3, delta=None, num_shards=3, out=None, rng=np.random.RandomState(1)) for _ in "ab"
    )
    law = fitted.components[0].dists[0]
    assert isinstance(held(law), LabelTable)
    given = [CategoricalDistribution(c.dists[0].pmap) for c in other.components]
    if asked:
        assert law.pmap == given[0].pmap
        assert law.pmap is law.pmap
    payload = law.dist_to_encoder().seq_encode([*labels, "unknown"])
    assert bits(law.seq_log_density(payload)) == bits(given[0].seq_log_density(payload))
    assert (repr(law), law.digest(), law.to_json()) == (repr(given[0]), given[0].digest(), given[0].to_json())
    assert law.sampler(3).sample(9) == given[0].sampler(3).sample(9)
    assert model_digest(law) == model_digest(given[0]) or labels is SETS["pairs"]
    again = pickle.loads(pickle.dumps(fitted))
    assert again.digest() == copy.deepcopy(fitted).digest() == other.digest()
    assert isinstance(held(law), dict) == asked


def test_an_estimator_of_ones_own_is_handed_a_dict():
    class Own(CategoricalEstimator):
        def estimate(self, nobs, suff_stat):
            assert type(suff_stat) is dict
            return super().estimate(nobs, suff_stat)

    rows, digests = list("abacbbcd") * 5, []
    for kind in (Own, CategoricalEstimator):
        model = optimize(rows, MixtureEstimator([kind()] * 2), 3, delta=None, out=None, rng=np.random.RandomState(1))
        digests.append(model.digest())
    assert digests[0] == digests[1]


def test_sums_that_wait_have_the_bits_of_sums_that_do_not(monkeypatch):
    rng = np.random.RandomState(7)
    rows = [(x, math.sin(i)) for i, x in enumerate(rows_of(rng, 300, 2500))]
    estimator = MixtureEstimator([CompositeEstimator((CategoricalEstimator(), GaussianEstimator()))] * 3)
    digests = set()
    for many, waiting in ((10**9, 1), (20, 1), (20, 1500), (20, 10**9)):
        monkeypatch.setattr(running, "MANY", many)
        monkeypatch.setattr(running, "WAITING", waiting)
        with encoded_data(rows, estimator, num_shards=9) as handle:
            model = optimize(None, estimator, 4, delta=None, enc_data=handle, out=None, rng=np.random.RandomState(4))
        digests.add(model.digest())
    assert len(digests) == 1
    assert running._unions
    del estimator, handle
    gc.collect()
    assert not running._unions


@pytest.mark.parametrize("spread", [0, 40, 1060])
def test_an_exact_sum_is_the_sum_rounded_once(spread):
    rng = np.random.RandomState(spread)
    values = np.ldexp(rng.uniform(-1.0, 1.0, 5000), rng.randint(-spread, 1, 5000))
    assert exact_sum(values) == math.fsum(values.tolist())
    assert exact_sum(np.abs(values)) == math.fsum(np.abs(values).tolist())
