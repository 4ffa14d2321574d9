"""What laws are made of and given: parts that are no laws, numbers out of a domain, data that are no rows."""

import datetime as dt
import decimal
import inspect
import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from test_bad_input import arguments, with_one_bad

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from mixle.stats.identities import watching
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


#: Arguments that take laws, estimators, or several of them.
PARTS = {
    "base", "base_estimator", "components", "components1", "components2", "default_dist", "default_estimator", "dist",
    "dists", "dmap", "estimator", "estimator_map", "estimators", "estimators1", "estimators2", "given_dist",
    "given_estimator", "init_dist", "init_estimator", "len_dist", "len_estimator", "prior", "topics",
}  # fmt: skip


def takers():
    """Return (class, argument) -> arguments of an instance: every argument of every class that takes parts."""
    found = {}
    for make in MODELS.values():
        model = make()
        for thing in (model.dist, model.estimator):
            for argument in inspect.signature(type(thing)).parameters:
                if argument in PARTS:
                    found.setdefault((type(thing), argument), arguments(thing))
    return found


TAKERS = takers()


def test_every_argument_that_takes_parts_is_held_to_them():
    classes = {getattr(st, name) for name in st.__all__ if name.endswith(("Distribution", "Estimator"))}
    asked = {(kind, name) for kind in classes for name in inspect.signature(kind).parameters if name in PARTS}
    assert asked == set(TAKERS)
    named = {name for kind in classes for name in inspect.signature(kind).parameters}
    laws_by_name = {name for name in named if name.endswith(("dist", "dists", "estimator", "estimators"))}
    assert laws_by_name - PARTS == {"cond_dist"}, "which holds numbers"


@pytest.mark.parametrize(("kind", "argument"), TAKERS, ids=lambda part: getattr(part, "__name__", part))
def test_an_argument_refuses_what_is_no_part_in_words(kind, argument):
    given = dict(TAKERS[kind, argument])
    value = given.get(argument)
    if argument == "components" and "topics" in inspect.signature(kind).parameters:  # another name of it
        value, given["topics"] = given["topics"], None
    swapped = LAW if "estimator" in argument else ESTIMATOR
    for bad in (3.0, "a", swapped, type(swapped)):
        wrong = bad
        if isinstance(value, (list, tuple)) and argument != "prior":
            wrong = [bad, *value[1:]]
        elif isinstance(value, dict):
            wrong = dict.fromkeys(value, bad)
        words = r"; pass |must be an? \w+Distribution|prior .* must be" if argument == "prior" else r"an? .*; pass "
        with pytest.raises(ValueError if argument == "prior" else TypeError, match=words):
            kind(**{**given, argument: wrong})


NUMBERS = [-1.0, 0.0, 1.5, -0.5, -1, 0, 2, 2.5, 1e308, 5e-324, -1e-9, 2**53, np.float32(-1), np.int64(-3)]
#: Not numbers of the law.
NOT_ASKED = {"name", "keys", "missing_value"}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_number_out_of_the_domain_is_refused_and_any_other_gives_densities(name):
    model, refusals = MODELS[name](), []
    for thing in (model.dist, model.dist.estimator(1.0)):
        given = arguments(thing)
        for argument, value in given.items():
            for bad in NUMBERS if argument not in NOT_ASKED else ():
                wrong = with_one_bad(value, bad)
                if wrong is None:
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


EXTREMES = [
    1e308,
    -1e308,
    1e300,
    1e200,
    1e154,
    -1e154,
    1e150,
    1e80,
    1e-80,
    1e-150,
    1e-200,
    -1e-300,
    1e-310,
    5e-324,
    0.0,
]
FAR_OUT = [1e150, -1e150, 1e153, 1e300, 1e-300, 5e-324, 0.0]


def with_extremes(model):
    """Return some rows of a model, and those that a number far out makes of its first one and that can be read."""
    rows, first = list(model.rows[:4]), model.rows[0]
    encoder = model.dist.dist_to_encoder()
    for number in FAR_OUT:
        row = number if isinstance(first, (int, float, np.generic)) else with_one_bad(first, number)
        if isinstance(first, np.ndarray):
            row = np.array([number, *first[1:]], float)
        try:
            encoder.seq_encode([row])
        except (ValueError, TypeError):
            continue
        rows.append(row)
    return rows


def surroundings(law, other):
    """Return the laws in which the components are scored together."""
    yield from ([law], [law, other], [other, law], [law, law], [other, law, other])


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"null"}))
def test_no_density_is_nan_or_infinite_however_extreme_a_parameter_and_a_row(name):
    """Not even among other components, whose densities are one product with the features of the rows."""
    model = MODELS[name]()
    rows, given = with_extremes(model), arguments(model.dist)
    for argument, value in given.items():
        for number in EXTREMES if argument not in NOT_ASKED else ():
            wrong = with_one_bad(value, number)
            if wrong is None:
                continue
            try:
                law = type(model.dist)(**{**given, argument: wrong})
                law.dist_to_encoder().seq_encode(rows)
            except (ValueError, TypeError):
                continue
            for laws in surroundings(law, model.dist):
                even = np.full(len(laws), 1.0 / len(laws))
                mixed = law if len(laws) == 1 else st.MixtureDistribution(laws, even)
                moves = np.tile(even, (len(laws), 1))
                chain = st.HiddenMarkovModelDistribution(laws, even, moves)
                with np.errstate(all="ignore"):
                    found = mixed.seq_log_density(mixed.dist_to_encoder().seq_encode(rows))
                    pairs = chain.seq_log_density(chain.dist_to_encoder().seq_encode([[row, row] for row in rows]))
                assert (found < math.inf).all(), (argument, number, len(laws))
                assert (pairs < math.inf).all(), (argument, number, len(laws))


@pytest.mark.parametrize("name", sorted(name for name in MODELS if MODELS[name]().leaf))
def test_nor_of_two_extreme_parameters_at_once(name):
    model = MODELS[name]()
    rows, given = with_extremes(model), arguments(model.dist)
    numbers = [argument for argument, value in given.items() if with_one_bad(value, 1.0) is not None]
    for one, other in itertools.combinations([n for n in numbers if n not in NOT_ASKED], 2):
        for pair in itertools.product([*EXTREMES, 1.0], repeat=2):
            wrong = {key: with_one_bad(given[key], number) for key, number in zip((one, other), pair, strict=True)}
            try:
                law = type(model.dist)(**{**given, **wrong})
            except (ValueError, TypeError):
                continue
            mixed = st.MixtureDistribution([model.dist, law], [0.5, 0.5])
            with np.errstate(all="ignore"):
                payload = law.dist_to_encoder().seq_encode(rows)
                assert (law.seq_log_density(payload) < math.inf).all(), wrong
                assert (mixed.seq_log_density(payload) < math.inf).all(), wrong


@pytest.mark.parametrize("law", [st.GaussianDistribution(0.0, 5e-324), st.ExponentialDistribution(5e-324)])
def test_a_scale_that_cannot_be_divided_by_is_no_wrong_number(law):
    mixed = st.MixtureDistribution(
        [law, law.estimator().estimate(None, statistic(law.estimator(), [1.0, 2.0]))], [0.5, 0.5]
    )
    with np.errstate(all="ignore"), watching(15) as watch:
        statistic(mixed.estimator(), np.array([0.0, 1.0, 2.0]), model=mixed)
    assert watch.checked > 0
    assert watch.worst <= 1.0


FULL = np.array([[1.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("apart", [1e10, 1e40, 1e80, 1e120, 1e150, 1e308])
def test_normal_components_however_far_apart_score_as_they_do_alone(apart):
    laws = [st.MultivariateGaussianDistribution(mu, FULL) for mu in ([apart, 0.0], [0.0, 0.0])]
    mixed = st.MixtureDistribution(laws, [0.5, 0.5])
    rows = np.array([[0.0, 1.0], [1.0, -1.0]])
    with np.errstate(all="ignore"):
        alone = np.log(0.5) + laws[1].seq_log_density(rows)
        assert mixed.seq_log_density(rows) == pytest.approx(alone, rel=1e-12)
        fitted = mixed.estimator().estimate(None, statistic(mixed.estimator(), rows, model=mixed))
    assert fitted.w.tolist() == [0.0, 1.0]
    assert fitted.components[1].mu == pytest.approx([0.5, 0.0])


def test_covariances_that_underflow_in_a_sum_are_no_singular_matrix():
    law = st.MultivariateGaussianDistribution([1e15, 1e30], 5e-324 * np.eye(2))
    mixed = st.MixtureDistribution([law, law], [0.5, 0.5])
    with np.errstate(all="ignore"):
        assert np.isneginf(mixed.seq_log_density(np.zeros((2, 2)))).all()


@pytest.mark.parametrize("scale", [1e-10, 1e-100, 1e-200])
def test_a_row_so_far_out_that_its_square_overflows_has_no_density_and_no_part_in_a_fit(scale):
    laws = [st.MultivariateGaussianDistribution([mu, 0.0], scale * FULL) for mu in (-1.0, 1.0)]
    mixed = st.MixtureDistribution(laws, [0.5, 0.5])
    rows = np.array([[1.0, 0.0], [1e150, 1.0], [1e150, -1e150], [-1.0, 0.0]])
    with np.errstate(all="ignore"), watching(15) as watch:
        value = statistic(mixed.estimator(), rows, model=mixed)
        assert np.isneginf(mixed.seq_log_density(rows)).tolist() == [False, True, True, False]
    assert watch.checked > 0
    assert watch.worst <= 1.0
    fitted = mixed.estimator().estimate(None, value)
    assert [part.mu.tolist() for part in fitted.components] == [[-1.0, 0.0], [1.0, 0.0]]


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
