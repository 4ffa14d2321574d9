"""What is handed to the pieces of a model and is not theirs: refused in words, and nothing is changed."""

import re

import numpy as np
import pytest

import mixle.stats as st
from bits import bits
from mixle.errors import ContractError, MixleError
from models import MODELS

ADVICE = "pass |make it with |use |leave |add "
NONSENSE = {
    "None": None,
    "a number": 5,
    "a text": "abc",
    "nothing": (),
    "one number": (1.0,),
    "nine numbers": (1.0,) * 9,
    "texts": ("a", "b", "c", "d"),
    "nothings": (None, None, None),
    "pairs of two lengths": ((1.0,) * 7, (3.0,)),
    "a matrix": np.ones((3, 3)),
    "seven zeros": np.zeros(7),
    "an object": object(),
}
#: A text is no dict, but nothing with entries can be told from a dict of labels.
ALSO = {"a dict": {"q": 1.0}, "not a number": float("nan")}
WRONG_PARTS = (None, "x", np.zeros(11), object())


def filled(name):
    """Return a model of the table, its accumulator with rows, and the statistic of these."""
    model = MODELS[name]()
    accumulator = model.estimator.accumulator_factory().make()
    rows = model.rows[:40]
    payload = accumulator.acc_to_encoder().seq_encode(rows)
    accumulator.seq_update(payload, np.ones(len(rows)), model.dist)
    return model, accumulator, accumulator.value()


def doors(model, accumulator):
    """Return what takes a statistic."""
    return accumulator.combine, accumulator.from_value, lambda value: model.estimator.estimate(None, value)


def spoilt(value):
    """Yield statistics that differ from one in their length or in one part."""
    if not isinstance(value, tuple) or not value:
        return
    yield tuple(value)[:-1]
    yield (*value, 1.0)
    for i in range(len(value)):
        for part in WRONG_PARTS:
            changed = (*value[:i], part, *value[i + 1 :])
            yield value._make(changed) if hasattr(value, "_make") else changed


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_is_no_statistic_is_refused_in_words(name):
    model, accumulator, value = filled(name)
    before = bits(value)
    for what, nonsense in NONSENSE.items():
        for door in doors(model, accumulator):
            if value is None:
                door(nonsense)  # there is nothing to read
                continue
            with pytest.raises(ContractError, match=ADVICE):
                door(nonsense)
            assert bits(accumulator.value()) == before, (what, door)


def refusal_of(door, wrong):
    """Return the error of this library that something is refused with, None if it is taken."""
    try:
        door(wrong)
    except MixleError as error:
        return error
    return None


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_spoilt_statistic_is_taken_or_refused_in_words_and_nothing_changes(name):
    model, _, value = filled(name)
    others = [filled(other)[2] for other in ("poisson", "multivariate gaussian", "categorical", "hidden markov")]
    for wrong in [*spoilt(value), *others, *ALSO.values()]:
        fresh = model.estimator.accumulator_factory().make().from_value(value)
        before = bits(fresh.value())
        for door in doors(model, fresh):
            refusal = refusal_of(door, wrong)
            if refusal is None:
                fresh.from_value(value)
                continue
            assert re.search(ADVICE, str(refusal)), refusal
            assert bits(fresh.value()) == before, (wrong, refusal)


def test_a_refusal_names_who_refused_what_and_what_belongs_there():
    estimator = st.CompositeEstimator((st.GaussianEstimator(), st.PoissonEstimator()))
    accumulator = estimator.accumulator_factory().make()
    own = accumulator.value()
    expected = "^LeafAccumulator.combine: entry 1 of the statistic is a number, not None; pass what"
    with pytest.raises(ContractError, match=expected):
        accumulator.combine((own[0], (1.0, None)))
    with pytest.raises(ContractError, match=r"field 'weight' of Moments is a number or an array of them, not 'x'"):
        accumulator.combine((own[0]._replace(weight="x"), own[1]))
    with pytest.raises(ContractError, match=r"SequenceEstimator\.estimate: 5 is not .* which is SequenceStatistics\("):
        st.SequenceEstimator(st.PoissonEstimator()).estimate(None, 5)
    with pytest.raises(ContractError, match=r"a tuple of 2 is not the statistic .*, which is MarkovChainStatistics\("):
        st.MarkovChainEstimator().accumulator_factory().make().combine((1.0, 2.0))


class Recount(st.PoissonEstimator().accumulator_factory().make().__class__):
    """An accumulator of a user's own, with a value of its own form."""

    def value(self):
        """Return a dict."""
        return {"sums": super().value(), "seen": 1}

    def from_value(self, x):
        """Take what `value` returned."""
        return super().from_value(x["sums"])

    def combine(self, suff_stat):
        """Add what `value` returned."""
        return super().combine(suff_stat["sums"])


def test_an_accumulator_of_a_users_own_may_hold_anything_and_fail_as_it_likes():
    accumulator = Recount(st.PoissonEstimator().leaf)
    accumulator.combine({"sums": (2.0, 5.0)})
    assert accumulator.combine(accumulator.value()).value() == {"sums": (4.0, 10.0), "seen": 1}
    with pytest.raises(KeyError, match="sums"):
        accumulator.combine({})
    with pytest.raises(ContractError, match="entry 1"):
        accumulator.combine({"sums": (2.0, "a")})
