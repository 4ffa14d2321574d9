"""What laws and estimators refuse when they are made, or asked for what they cannot do: each says what to pass."""

import inspect
import linecache
import math
import traceback

import numpy as np
import pandas as pd
import pytest

import mixle.stats as st
from mixle.errors import RowError
from mixle.inference import schedules
from models import MODELS

NORMAL = st.GaussianDistribution(0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: st.CategoricalDistribution({}).sampler(1).sample(),
            ValueError,
            "without labels cannot be sampled; fit it to rows first",
        ),
        (lambda: st.DirichletDistribution([1.0]), ValueError, "alpha of a Dirichlet must have two entries or more"),
        (lambda: st.PointMassDistribution([1.0]), ValueError, "the value of a PointMass must be hashable"),
        (
            lambda: st.GaussianMixtureDistribution([[0.0], [1.0]], [1.0, 1.0]),
            ValueError,
            r"sig2 must have shape \(2, 1, 1\) or \(2, 1\), has \(2,\)",
        ),
        (
            lambda: st.GaussianMixtureEstimator([st.DiagonalGaussianEstimator()], conj_prior_params=1.0),
            ValueError,
            "conj_prior_params is not built in; pass prior= to the component estimators",
        ),
        (lambda: st.HiddenMarkovEstimator([]), ValueError, "needs at least one estimator of its elements"),
        (
            lambda: st.HiddenMarkovModelDistribution([NORMAL], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
            ValueError,
            "2 states need as many laws of an element, got 1",
        ),
        (
            lambda: st.DiagonalGaussianDistribution([[0.0]], [1.0]),
            ValueError,
            r"must be a vector, has shape \(1, 1\)",
        ),
        (lambda: schedules.harmonic(0.7, -1.0), ValueError, "offset of harmonic must not be negative"),
        (
            lambda: st.seq_encode(pd.DataFrame({"x": [1.0]}), model=NORMAL),
            TypeError,
            r"a DataFrame is not taken: pass list\(data.itertuples",
        ),
        (
            lambda: st.DirichletDistribution([1.0, 1.0]).dist_to_encoder().seq_encode([[1.0]]),
            RowError,
            "a row of shares needs two entries or more|expected",
        ),
        (
            lambda: st.VonMisesFisherEstimator().accumulator_factory().make().acc_to_encoder().seq_encode([[1.0]]),
            RowError,
            "a direction needs two entries or more",
        ),
    ],
)
def test_what_is_refused_says_what_to_pass(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_dirichlet_without_rows_asks_for_its_dimension():
    estimator = st.DirichletEstimator()
    with pytest.raises(ValueError, match="cannot be fitted without rows; pass dim="):
        estimator.estimate(None, estimator.accumulator_factory().make().value())


@pytest.mark.parametrize("position", [0, 2])
def test_an_error_inside_a_sequence_names_its_row(position):
    rows = [[1.0], [1.0, 2.0], [3.0]]
    rows[position] = [*rows[position], "b"]
    encoder = st.SequenceEstimator(st.GaussianEstimator()).accumulator_factory().make().acc_to_encoder()
    with pytest.raises(RowError) as caught:
        encoder.seq_encode(rows)
    assert caught.value.row == position
    law = st.SequenceEstimator(st.ExponentialEstimator(), len_estimator=st.PoissonEstimator())
    accumulator = law.accumulator_factory().make()
    rows = [[1.0], [1.0, 2.0], [3.0]]
    rows[position] = [-1.0]
    with pytest.raises(RowError) as caught:
        accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(3), None)
    assert caught.value.row == position


#: What is no argument of any class; a class may read some of them.
STRANGE = (
    None, "a", -1, 0, 1.5, math.nan, math.inf, 10**400, True, [], {}, [1, "a"], np.array(3.0), np.zeros((2, 3)), 3j,
    object(), len, {"a": 1}, [0.5, 0.5], np.float64(2.0),
)  # fmt: skip


def told(error):
    """Return whether the error was raised on purpose by this library, or by Python for an argument that is missing."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    source = linecache.getline(last.filename, last.lineno).strip()
    return "required positional argument" in str(error) or (source.startswith("raise ") and "mixle" in last.filename)


def raised(call):
    """Return what a call raises, None for nothing."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whichever it is, it has to say what is wrong
        return error
    return None


CLASSES = [name for name in st.__all__ if inspect.isclass(getattr(st, name)) and not name.endswith("Error")]


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_of_every_class_is_refused_in_words(name):
    build = getattr(st, name)
    for argument in inspect.signature(build).parameters.values():
        if argument.kind in {argument.VAR_KEYWORD, argument.VAR_POSITIONAL}:
            continue
        for value in STRANGE:
            found = raised(lambda given=argument.name, value=value: build(**{given: value}))
            assert found is None or told(found), (argument.name, value, found)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_sampler_refuses_what_is_no_size_and_what_is_no_seed(name):
    law = MODELS[name]().dist
    for bad in (1.5, "a", True, [1], (2, 3), 2.0):
        with pytest.raises(TypeError, match="size must be a whole number of rows, or None for one row alone, not "):
            law.sampler(1).sample(bad)
    with pytest.raises(ValueError, match="size must be at least 0, not -1"):
        law.sampler(1).sample(-1)
    for bad, error in ((-1, ValueError), (2**32, ValueError), ("a", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match=r"seed must be an int from 0 to 2\*\*32 - 1, or None for a fresh one, not "):
            law.sampler(bad)
    if raised(lambda: law.sampler(1).sample()) is not None:
        return  # a law that cannot be drawn from
    assert len(law.sampler(1).sample(np.int64(3))) == 3
    assert len(law.sampler(1).sample(0)) == 0
