"""Components that are called together have the bits that each has alone."""

import numpy as np
import pytest

import mixle.stats as st
from bits import bits
from mixle.errors import SupportError
from mixle.stats import together
from mixle.stats.stacking.lanes import lanes
from mixle.stats.stacking.tree import unify
from models import MODELS


def members(model, count):
    """Return fits to parts of the rows: laws of one family that differ."""
    rows, found = list(model.rows), [model.dist]
    for k in range(1, count):
        part = rows[k::count] + rows[:3]
        accumulator = model.estimator.accumulator_factory().make()
        payload = model.dist.dist_to_encoder().seq_encode(part)
        accumulator.seq_update(payload, np.ones(len(part)), model.dist)
        found.append(model.estimator.estimate(float(len(part)), accumulator.value()))
    return found


def together_ones():
    """Return the names of the models whose components are called together."""
    return [name for name, make in MODELS.items() if together.able([make().dist])]


NAMES = together_ones()


def test_the_families_that_do_so_are_found():
    families = {type(MODELS[name]().dist).__name__ for name in NAMES}
    assert families >= {"BernoulliSetDistribution", "IntegerBernoulliSetDistribution", "SequenceDistribution"}
    assert families >= {"MultinomialDistribution", "IntegerMultinomialDistribution"}


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("name", NAMES)
def test_together_equals_one_by_one(name, count):
    model = MODELS[name]()
    laws = members(model, count)
    rows = [*model.rows, *model.outside]
    encoder = laws[0].dist_to_encoder()
    payload = encoder.seq_encode(rows)
    weights = np.random.default_rng(3).random((count, len(rows)))
    weights[:, ::7] = 0.0
    weights[:, len(model.rows) :] = 0.0
    for start, stop in ((0, len(rows)), (5, 133), (9, 10), (4, 4)):
        part = encoder.slice(payload, start, stop)
        alone = [np.asarray(law.seq_log_density(part)) for law in laws]
        both = together.densities(laws, part)
        assert both is not None or stop - start < 10
        if both is not None:
            assert bits(list(both)) == bits(alone)
        one_by_one, at_once = ([model.estimator.accumulator_factory().make() for _ in laws] for _ in range(2))
        done = together.update(at_once, part, weights[:, start:stop].copy(), laws)
        assert done or stop - start < 10
        for k, (accumulator, law) in enumerate(zip(one_by_one, laws, strict=True)):
            if done:
                accumulator.seq_update(part, weights[k, start:stop].copy(), law)
        assert bits([a.value() for a in at_once]) == bits([a.value() for a in one_by_one])


@pytest.mark.parametrize("name", [name for name in NAMES if unify([MODELS[name]().dist] * 2).kind == "general"])
def test_a_mixture_of_many_is_called_together_and_split_over_lanes_alike(name, monkeypatch):
    model = MODELS[name]()
    laws = members(model, 17)
    mixture = st.MixtureDistribution(laws, np.full(17, 1 / 17))
    estimator = st.MixtureEstimator([model.estimator] * 17)
    payload = mixture.dist_to_encoder().seq_encode(list(model.rows))
    calls, found = [], []
    plain = together._shared
    for ways in (lambda *a: calls.append(a[0]) or plain(*a), lambda *a: None):
        monkeypatch.setattr(together, "_shared", ways)
        for threads in (1, 2):
            with lanes(threads):
                accumulator = estimator.accumulator_factory().make()
                scored = accumulator.seq_update_scored(payload, np.ones(len(model.rows)), mixture)
                found.append(bits([scored, accumulator.value()]))
    assert calls
    assert len(set(map(str, found))) == 1


def test_a_subclass_or_a_member_with_a_score_of_its_own_is_called_by_it():
    class Own(st.BernoulliSetDistribution):
        def seq_log_density(self, x):
            return super().seq_log_density(x) - 1.0

    law, own = st.BernoulliSetDistribution({"a": 0.3}), Own({"a": 0.3})
    assert together.able([law, law])
    assert not together.able([own, own])
    assert not together.able([law, own])
    patched = st.BernoulliSetDistribution({"a": 0.3})
    patched.seq_log_density = lambda x: np.zeros(len(x.x))
    assert not together.able([law, patched])


def test_many_labels_in_few_sets_are_scored_one_by_one():
    rows = [[f"tag {i}"] for i in range(50)]
    laws = [st.BernoulliSetDistribution({f"tag {i}": p for i in range(50)}) for p in (0.1, 0.2)]
    payload = laws[0].dist_to_encoder().seq_encode(rows)
    assert together.densities(laws, payload) is not None
    part = laws[0].dist_to_encoder().slice(payload, 0, 10)
    assert together.densities(laws, part) is None
    made = [law.estimator().accumulator_factory().make() for law in laws]
    assert not together.update(made, part, np.ones((2, 10)), laws)


def test_a_row_outside_of_the_support_is_refused_together_too():
    laws = [st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25]))] * 2
    payload = laws[0].dist_to_encoder().seq_encode([[0], [5], [1]])
    made = [law.estimator().accumulator_factory().make() for law in laws]
    with pytest.raises(SupportError) as caught:
        together.update(made, payload, np.ones((2, 3)), laws)
    assert caught.value.row == 1
