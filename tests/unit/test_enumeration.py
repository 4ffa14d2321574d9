"""Enumerators: every outcome once, the most probable first, with the model's own score."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from mixle.errors import EnumerationError
from mixle.stats import (
    AffineTransform,
    BernoulliDistribution,
    BernoulliSetDistribution,
    BinomialDistribution,
    CategoricalDistribution,
    CompositeDistribution,
    ConditionalDistribution,
    GaussianDistribution,
    GeometricDistribution,
    HurdleDistribution,
    IntegerBernoulliSetDistribution,
    IntegerCategoricalDistribution,
    MarkovChainDistribution,
    MixtureDistribution,
    MultinomialDistribution,
    NegativeBinomialDistribution,
    NullDistribution,
    OptionalDistribution,
    PointMassDistribution,
    PoissonDistribution,
    RecordDistribution,
    SelectDistribution,
    SequenceDistribution,
    TransformDistribution,
    TruncatedDistribution,
    ZeroInflatedDistribution,
)
from mixle.stats.compute.pdist import NucleusResult
from models import MODELS

LABELS = CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2, "never": 0.0})
COUNTS = MixtureDistribution([PoissonDistribution(2.0), PoissonDistribution(9.0)], [0.4, 0.6])
PAIRS = CompositeDistribution([LABELS, PoissonDistribution(1.5)])
CHAIN = MarkovChainDistribution(
    {"a": 0.5, "b": 0.5}, {"a": {"a": 0.1, "b": 0.9}, "b": {"a": 0.4, "b": 0.6}}, PoissonDistribution(3.0)
)
LISTED = {
    "bernoulli": BernoulliDistribution(0.3),
    "certain": BernoulliDistribution(1.0),
    "binomial": BinomialDistribution(0.4, 9, 2),
    "binomial at an end": BinomialDistribution(1.0, 9),
    "categorical": LABELS,
    "geometric": GeometricDistribution(0.3),
    "integers": IntegerCategoricalDistribution(-2, [0.2, 0.5, 0.0, 0.3]),
    "negative binomial": NegativeBinomialDistribution(0.4, 0.3),
    "negative binomial with a mode": NegativeBinomialDistribution(7.5, 0.4),
    "point": PointMassDistribution("x"),
    "poisson": PoissonDistribution(3.0),
    "poisson of nothing": PoissonDistribution(0.0),
    "poisson, large": PoissonDistribution(1e6),
    "set": BernoulliSetDistribution({"a": 0.7, "b": 0.2, "c": 0.5}),
    "set with certain labels": BernoulliSetDistribution({"a": 1.0, "b": 0.0, "c": 0.3}, min_prob=0.0),
    "set of integers": IntegerBernoulliSetDistribution(np.log([0.1, 0.9, 0.3, 0.6])),
    "composite": PAIRS,
    "record": RecordDistribution({"label": LABELS, "n": GeometricDistribution(0.5)}),
    "optional": OptionalDistribution(PoissonDistribution(2.0), 0.2),
    "never missing": OptionalDistribution(LABELS, 0.0),
    "always missing": OptionalDistribution(LABELS, 1.0),
    "sequence": SequenceDistribution(LABELS, PoissonDistribution(1.0)),
    "sequence without empty ones": SequenceDistribution(BernoulliDistribution(0.4), GeometricDistribution(0.4)),
    "chain": CHAIN,
    "chain of three": MarkovChainDistribution(
        {"a": 1.0},
        {"a": {"b": 0.5, "c": 0.5}, "b": {"a": 0.2, "b": 0.8}, "c": {"c": 1.0}},
        IntegerCategoricalDistribution(0, [0.1, 0.2, 0.3, 0.4]),
    ),
    "mixture": COUNTS,
    "zero inflated": ZeroInflatedDistribution(PoissonDistribution(3.0), 0.1),
    "zeros only": ZeroInflatedDistribution(PoissonDistribution(3.0), 1.0),
    "hurdle": HurdleDistribution(COUNTS, 0.4),
    "truncated above": TruncatedDistribution(COUNTS, low=1.5),
    "truncated below": TruncatedDistribution(COUNTS, high=6.0),
    "truncated to": TruncatedDistribution(LABELS, ["a", "c"]),
    "multinomial": MultinomialDistribution(LABELS, BinomialDistribution(0.6, 5)),
    "multinomial of counts": MultinomialDistribution(GeometricDistribution(0.2), PoissonDistribution(1.5)),
    "multinomial of even values": MultinomialDistribution(BernoulliDistribution(0.5), PoissonDistribution(6.0)),
    "conditional": ConditionalDistribution(
        {"a": PoissonDistribution(2.0), "b": BernoulliDistribution(0.3), "c": LABELS}, None, LABELS
    ),
    "conditional of counts": ConditionalDistribution(
        [GeometricDistribution(0.5), LABELS], PoissonDistribution(1.0), GeometricDistribution(0.4)
    ),
    "select": SelectDistribution.by_type([(str, LABELS), (int, PoissonDistribution(2.0))], [0.25, 0.75]),
    "transform": TransformDistribution(PoissonDistribution(2.0), AffineTransform(0.5, 2.0)),
    "mixture of pairs": MixtureDistribution([PAIRS, PAIRS, CompositeDistribution([LABELS, COUNTS])], [0.2, 0.0, 0.8]),
    "mixture of lists": MixtureDistribution(
        [SequenceDistribution(LABELS, GeometricDistribution(p)) for p in (0.2, 0.7)]
    ),
    "mixture of records": MixtureDistribution([RecordDistribution({"n": PoissonDistribution(m)}) for m in (1.0, 4.0)]),
}


@pytest.mark.parametrize("law", LISTED.values(), ids=LISTED)
def test_an_enumerator_lists_every_outcome_once_in_order(law):
    found = law.enumerator().top_k(400)
    bag, in_order = isinstance(law, MultinomialDistribution), partial(sorted, key=repr)
    scores = np.array([score for _, score in found])
    assert np.allclose(scores, [law.log_density(value) for value, _ in found], rtol=1e-12, atol=1e-12)
    assert (np.diff(scores) <= 1e-12).all()
    assert len({repr(value) for value, _ in found}) == len(found)
    # what was not listed is no more probable than what was
    listed = [in_order(value) if bag else value for value, _ in found]
    for value in law.sampler(1).sample(200):
        assert (in_order(value) if bag else value) in listed or law.log_density(value) <= scores[-1] + 1e-9


@pytest.mark.parametrize(
    "name",
    [
        "bernoulli",
        "binomial",
        "categorical",
        "integers",
        "point",
        "never missing",
        "set",
        "multinomial",
        "chain of three",
    ],
)
def test_a_finite_law_is_listed_whole(name):
    assert math.isclose(math.fsum(math.exp(score) for _, score in LISTED[name].enumerator()), 1.0, rel_tol=1e-12)


def test_the_likeliest_paths_of_a_chain_come_first():
    found = CHAIN.enumerator().top_k(5)
    assert [value for value, _ in found] == [["a", "b"], ["a"], ["b"], ["b", "b"], ["a", "b", "b"]]
    wanted = [-2.2944302994414976, -2.5945348918918354, -2.5945348918918354, -2.6998954075496617, -2.805255923207488]
    assert [score for _, score in found] == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(EnumerationError, match="without a law of lengths"):
        next(MarkovChainDistribution({"a": 1.0}, {"a": {"a": 1.0}}).enumerator())


def test_a_key_without_a_law_is_never_listed():
    law = ConditionalDistribution({"a": LABELS, "b": BernoulliDistribution(0.3)}, None, LABELS)
    found = list(law.enumerator())
    assert {given for (given, _), _ in found} == {"a", "b"}
    assert math.isclose(math.fsum(math.exp(score) for _, score in found), 0.8, rel_tol=1e-12)


def test_bags_of_one_total_come_as_if_all_were_sorted():
    """All bags of seven values among four, by brute force: the search leaves none out and takes none early."""
    element = CategoricalDistribution({"a": 0.4, "b": 0.37, "c": 0.22, "d": 0.01})
    law = MultinomialDistribution(element, PointMassDistribution(7))
    every = [n for n in itertools.product(range(8), repeat=4) if sum(n) == 7]
    scores = sorted((law.log_density(list(zip("abcd", n, strict=True))) for n in every), reverse=True)
    found = [score for _, score in law.enumerator()]
    assert len(found) == 120
    assert np.allclose(found, scores, rtol=1e-12, atol=1e-12)


def test_an_enumerator_is_an_iterator_and_its_questions_begin_anew():
    enumerator = PoissonDistribution(2.0).enumerator()
    assert [next(enumerator)[0] for _ in range(3)] == [2, 1, 3]
    assert [value for value, _ in enumerator.top_k(2)] == [2, 1]
    assert next(enumerator)[0] == 0
    assert [value for value, _ in enumerator.from_index(2, 4)] == [3, 0]
    assert next(iter(enumerator))[0] == 4


def test_the_nucleus_is_the_smallest_set_of_a_probability():
    found = LABELS.enumerator().top_p(0.7)
    assert isinstance(found, NucleusResult)
    assert [value for value, _ in found] == ["a", "b"]
    assert (found.reached_target, found.exhausted, found.capped) == (True, False, False)
    assert math.isclose(found.cumulative_probability, 0.8)
    capped = PoissonDistribution(2.0).enumerator().top_p(1.0, max_items=3)
    assert (len(capped), capped.capped, capped.reached_target) == (3, True, False)
    assert LABELS.enumerator().top_p(0.0) == []
    rest = MixtureDistribution([LABELS, LABELS]).enumerator().top_p(1.0)
    assert len(rest) == 3


@pytest.mark.parametrize("value", [-1, 1.5, True, "2"])
def test_positions_are_whole_numbers(value):
    for call in (LABELS.enumerator().top_k, LABELS.enumerator().from_index):
        with pytest.raises(ValueError, match="whole number of at least 0"):
            call(value)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), True, "2"])
def test_probabilities_are_probabilities(value):
    with pytest.raises(ValueError, match="between 0 and 1"):
        LABELS.enumerator().top_p(value)


@pytest.mark.parametrize(
    "law",
    [
        GaussianDistribution(0.0, 1.0),
        CompositeDistribution([LABELS, GaussianDistribution(0.0, 1.0)]),
        OptionalDistribution(LABELS),
        SequenceDistribution(LABELS, NullDistribution()),
        SequenceDistribution(LABELS, PoissonDistribution(1.0), len_normalized=True),
        CategoricalDistribution({"a": 1.0}, default_value=0.1),
        MultinomialDistribution(LABELS),
        MultinomialDistribution(LABELS, PoissonDistribution(1.0), len_normalized=True),
        ConditionalDistribution({"a": LABELS}),
        ConditionalDistribution({"a": LABELS}, GaussianDistribution(0.0, 1.0), LABELS),
        HurdleDistribution(GaussianDistribution(0.0, 1.0), 0.5),
        TruncatedDistribution(GaussianDistribution(0.0, 1.0), high=0.5),
        TransformDistribution(GaussianDistribution(0.0, 1.0)),
        SelectDistribution([LABELS], len),
    ],
    ids=lambda law: type(law).__name__,
)
def test_laws_without_a_list_say_so(law):
    with pytest.raises(NotImplementedError, match=r"has no enumerator: .*; draw from it instead") as told:
        law.enumerator()
    assert isinstance(told.value, EnumerationError)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_lists_its_own_rows_or_says_that_it_cannot(name):
    """A model that inherits a list it does not have would be caught here."""
    model = MODELS[name]().dist
    try:
        found = model.enumerator().top_k(5)
    except EnumerationError:
        return
    for value, score in found:
        assert math.isclose(model.log_density(value), score, rel_tol=1e-9, abs_tol=1e-9)
