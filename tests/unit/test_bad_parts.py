"""What laws are made of and given: parts that are no laws, numbers out of a domain, data that are no rows."""

import datetime as dt
import decimal
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from test_bad_input import arguments, with_one_bad

import mixle.stats as st
from mixle.inference import optimize
from models import MODELS

LAW, ESTIMATOR = st.PoissonDistribution(1.0), st.PoissonEstimator()
HALF, MOVES = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]
#: Each takes a part and makes a combinator of it.
LAWS = {
    "Composite": lambda part: st.CompositeDistribution((part, LAW)),
    "Conditional": lambda part: st.ConditionalDistribution({"a": part}),
    "Conditional, others": lambda part: st.ConditionalDistribution({"a": LAW}, part),
    "Conditional, keys": lambda part: st.ConditionalDistribution({"a": LAW}, None, part),
    "Censored": st.CensoredDistribution,
    "HiddenMarkovModel": lambda part: st.HiddenMarkovModelDistribution([part, LAW], HALF, MOVES),
    "HiddenMarkovModel, length": lambda part: st.HiddenMarkovModelDistribution([LAW] * 2, HALF, MOVES, len_dist=part),
    "Hurdle": lambda part: st.HurdleDistribution(part, 0.1),
    "Ignored": st.IgnoredDistribution,
    "JointMixture": lambda part: st.JointMixtureDistribution([part, LAW], [LAW] * 2, HALF, HALF, MOVES, MOVES),
    "Mixture": lambda part: st.MixtureDistribution([part, LAW]),
    "Multinomial": lambda part: st.MultinomialDistribution(part, LAW),
    "Optional": st.OptionalDistribution,
    "Record": lambda part: st.RecordDistribution({"a": part}),
    "Select": lambda part: st.SelectDistribution([part, LAW], lambda _: 0),
    "Sequence": st.SequenceDistribution,
    "Sequence, length": lambda part: st.SequenceDistribution(LAW, part),
    "Transform": st.TransformDistribution,
    "Truncated": lambda part: st.TruncatedDistribution(part, forbidden=[0]),
    "Weighted": st.WeightedDistribution,
    "ZeroInflated": lambda part: st.ZeroInflatedDistribution(part, 0.1),
}
ESTIMATORS = {
    "Composite": lambda part: st.CompositeEstimator((part, ESTIMATOR)),
    "Conditional": lambda part: st.ConditionalEstimator({"a": part}),
    "Conditional, others": lambda part: st.ConditionalEstimator({"a": ESTIMATOR}, part),
    "Censored": st.CensoredEstimator,
    "HiddenMarkovModel": lambda part: st.HiddenMarkovEstimator([part, ESTIMATOR]),
    "HiddenMarkovModel, length": lambda part: st.HiddenMarkovEstimator([ESTIMATOR] * 2, part),
    "Hurdle": st.HurdleEstimator,
    "Mixture": lambda part: st.MixtureEstimator([part, ESTIMATOR]),
    "Multinomial": lambda part: st.MultinomialEstimator(part, ESTIMATOR),
    "Optional": st.OptionalEstimator,
    "Record": lambda part: st.RecordEstimator({"a": part}),
    "Select": lambda part: st.SelectEstimator([part, ESTIMATOR], lambda _: 0),
    "Sequence": st.SequenceEstimator,
    "Transform": st.TransformEstimator,
    "Truncated": lambda part: st.TruncatedEstimator(part, forbidden=[0]),
    "Weighted": st.WeightedEstimator,
    "ZeroInflated": st.ZeroInflatedEstimator,
}


@pytest.mark.parametrize("bad", [3.0, "a", ESTIMATOR, st.PoissonDistribution], ids=["3", "a", "estimator", "class"])
@pytest.mark.parametrize("name", LAWS)
def test_what_is_no_law_is_refused_where_it_is_given(name, bad):
    LAWS[name](LAW)
    with pytest.raises(TypeError, match=rf"a part of an? {name.split(',')[0]} is .*; pass "):
        LAWS[name](bad)


@pytest.mark.parametrize("bad", [3.0, "a", LAW, st.PoissonEstimator], ids=["3", "a", "law", "class"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_estimator_is_refused_where_it_is_given(name, bad):
    ESTIMATORS[name](ESTIMATOR)
    with pytest.raises(TypeError, match=rf"a part of an? {name.split(',')[0]}.* is .*; pass "):
        ESTIMATORS[name](bad)


NUMBERS = [-1.0, 0.0, 1.5, -0.5, -1, 0, 2, 2.5, 1e308, 5e-324, -1e-9, 2**53, np.float32(-1), np.int64(-3)]
#: Not numbers of the law, and a mean so far out that nothing is left of the others.
NOT_ASKED = {"name", "keys", "missing_value"}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_number_out_of_the_domain_is_refused_and_any_other_gives_densities(name):
    model, refusals = MODELS[name](), []
    for thing in (model.dist, model.dist.estimator(1.0)):
        given = arguments(thing)
        for argument, value in given.items():
            for bad in NUMBERS if argument not in NOT_ASKED else ():
                wrong = with_one_bad(value, bad)
                if wrong is None or (isinstance(thing, st.GaussianMixtureDistribution) and float(bad) == 1e308):
                    continue
                try:
                    made = type(thing)(**{**given, argument: wrong})
                except (ValueError, TypeError) as error:
                    refusals.append(str(error))
                    continue
                if hasattr(made, "seq_log_density"):
                    with np.errstate(all="ignore"):
                        found = made.seq_log_density(made.dist_to_encoder().seq_encode(model.rows[:5]))
                    assert not np.isnan(found).any(), (argument, bad)
    assert [told for told in refusals if "cannot be interpreted" in told or "math" in told] == []


#: Data that hold rows of no, or of few, models.
DATA = {
    "nothing": [],
    "a number": 3.0,
    "a text": "abc",
    "a set": {1.0, 2.0},
    "rows of two widths": [[1.0, 2.0], [3.0]],
    "rows of many kinds": [1.0, "a", None, (1, 2)],
    "records": np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    "complex numbers": np.array([1 + 2j]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "truth values": np.array([True, False, True]),
    "infinities": np.array([math.inf, 1.0, 2.0]),
    "three axes": np.zeros((2, 2, 2)),
    "gaps": pd.Series([1, None, 3], dtype="Int64"),
    "bytes": [b"a", b"b"],
    "decimals": [decimal.Decimal("1.5")] * 3,
    "days": [dt.date(2020, 1, 1)] * 3,
    "denormals": [5e-324] * 4,
    "1e300": [1e300, -1e300, 1e299],
    "2**60": [2**60, 2**60 + 1],
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_data_that_are_no_rows_of_a_model_are_refused_in_words(name):
    estimator = MODELS[name]().estimator
    for what, rows in DATA.items():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                model = optimize(rows, estimator, max_its=1, delta=None, seed=1, out=None)
                found = model.seq_log_density(model.dist_to_encoder().seq_encode(rows))
            except (ValueError, TypeError) as error:
                told = str(error)
                assert any(word in told for word in ("; ", "pass ", "must ", "needs ")), (what, told)
                assert "object has no attribute" not in told, (what, told)
                continue
        assert not np.isnan(found).any(), what
