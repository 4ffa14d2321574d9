"""Models as text: reprs, JSON, digests."""

import datetime as dt
import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import mixle.stats as st
from mixle.errors import SerializationError

NAMES = {name: getattr(st, name) for name in st.__all__}


def test_reprs_print_every_argument():
    assert repr(st.GaussianDistribution(0, 1)) == "GaussianDistribution(0.0, 1.0, name=None, keys=None)"
    d = st.OptionalDistribution(st.BernoulliDistribution(0.5, name="b"), missing_value=math.nan)
    assert repr(d) == (
        "OptionalDistribution(BernoulliDistribution(0.5, name='b', keys=None), p=None, missing_value=float('nan'), "
        "name=None, keys=None)"
    )
    assert repr(st.MultivariateGaussianDistribution([0.0], [[1.0]])) == (
        "MultivariateGaussianDistribution([0.0], [[1.0]], name=None, keys=None)"
    )


@pytest.mark.parametrize("missing", [None, math.nan, -1, "?", ("a", 1), -0.0, math.inf, b"x"])
def test_missing_values_survive_as_text(missing):
    d = st.OptionalDistribution(st.PoissonDistribution(1.0), 0.5, missing)
    for again in (st.OptionalDistribution.from_json(d.to_json()), eval(repr(d), NAMES)):
        assert repr(again) == repr(d)
        assert again.digest() == d.digest()
        assert again.dist_to_encoder() == d.dist_to_encoder()
        assert again.log_density(missing) == math.log(0.5)


@pytest.mark.parametrize("value", [0.1, 1e-300, 5e-324, 1.7976931348623157e308, 1 / 3, -0.0])
def test_floats_survive_exactly(value):
    d = st.GaussianDistribution(value, 1.0)
    for again in (st.GaussianDistribution.from_json(d.to_json()), eval(repr(d), NAMES)):
        assert again.mu.hex() == float(value).hex()


def test_numpy_parameters_print_as_plain_numbers():
    d = st.GaussianDistribution(np.float64(0.5), np.float32(2.0), keys=np.int64(3))
    assert repr(d) == "GaussianDistribution(0.5, 2.0, name=None, keys=3)"
    assert st.GaussianDistribution.from_json(d.to_json()).digest() == d.digest()


def test_labels_of_every_plain_type_survive():
    pmap = {"a": 0.25, 1: 0.25, None: 0.125, True and ("t", 2.5): 0.125, b"raw": 0.25}
    d = st.CategoricalDistribution(pmap)
    again = st.CategoricalDistribution.from_json(d.to_json())
    assert again.pmap == d.pmap
    assert list(again.pmap) == list(d.pmap)
    assert eval(repr(d), NAMES).digest() == d.digest()


def test_the_digest_does_not_depend_on_the_order_of_labels():
    a = st.CategoricalDistribution({"a": 0.25, "b": 0.75})
    b = st.CategoricalDistribution({"b": 0.75, "a": 0.25})
    assert a.digest() == b.digest()
    assert a.digest() != st.CategoricalDistribution({"a": 0.75, "b": 0.25}).digest()
    assert a.digest() != st.CategoricalDistribution({"a": 0.25, "b": 0.75}, name="other").digest()


def test_T64_the_digest_is_the_same_under_any_hash_seed():
    code = (
        "from mixle.stats import *; d = CategoricalDistribution({c: 1 / 8 for c in 'abcdefgh'}); "
        "e = CategoricalEstimator().accumulator_factory().make(); import numpy as np; "
        "e.seq_update(e.acc_to_encoder().seq_encode(list('hgfedcba')), np.ones(8), None); print(d.digest(), e.value())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(runs) == 1


def test_reading_checks_what_it_is_given():
    text = st.PoissonDistribution(1.0).to_json()
    with pytest.raises(SerializationError, match="expected a GaussianDistribution"):
        st.GaussianDistribution.from_json(text)
    for change, message in (
        ({"type": "Unheard"}, "unknown model type 'Unheard'"),
        ({"type": "seq_encode"}, "unknown model type"),
        ({"schema": 2}, "schema 2"),
        ({"extra": 1}, "unknown arguments extra"),
    ):
        with pytest.raises(SerializationError, match=message):
            st.PoissonDistribution.from_json(json.dumps(json.loads(text) | change))
    broken = json.loads(text)
    del broken["lam"]
    with pytest.raises(SerializationError, match="cannot be built"):
        st.PoissonDistribution.from_json(json.dumps(broken))
    with pytest.raises(ValueError, match="lam"):
        st.PoissonDistribution.from_json(json.dumps(json.loads(text) | {"lam": -1.0}))


def test_what_has_no_json_form_says_so():
    with pytest.raises(SerializationError, match="object"):
        st.OptionalDistribution(st.PoissonDistribution(1.0), missing_value=object()).to_json()


def test_a_class_of_ones_own_is_made_known():
    class Mine(st.PoissonDistribution):
        pass

    d = Mine(2.0)
    with pytest.raises(SerializationError, match="register_model"):
        Mine.from_json(d.to_json())
    st.register_model(Mine)
    assert Mine.from_json(d.to_json()).lam == 2.0


def test_json_options_are_passed_on():
    text = st.PoissonDistribution(1.0).to_json(indent=2)
    assert text.startswith("{\n")
    assert st.PoissonDistribution.from_json(text).lam == 1.0


@pytest.mark.parametrize(
    "label", [10**5000, -(10**5000), 2**2048, 2**2048 - 1], ids=["large", "small", "hex", "decimal"]
)
def test_labels_of_very_many_digits(label):
    for model in (
        st.CategoricalDistribution({label: 0.5, 1: 0.5}),
        st.PointMassDistribution(label),
        st.BernoulliSetDistribution({label: 0.5}),
        st.MarkovChainDistribution({label: 1.0}, {label: {label: 1.0}}),
    ):
        again = type(model).from_json(model.to_json())
        assert again.digest() == model.digest()
        assert repr(again) == repr(model)
    assert st.CategoricalDistribution({label: 0.5, 1: 0.5}).density(label) == 0.5
    assert eval(repr(st.PointMassDistribution(label)), NAMES).value == label


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (
            lambda part: st.HiddenMarkovModelDistribution([part], [1.0], components=[part]),
            "topics and components",
        ),
        (lambda part: st.HiddenMarkovModelDistribution([part], [1.0], [[1.0]], weights=[1.0]), "w and weights"),
        (lambda part: st.MixtureDistribution([part], [1.0], weights=[1.0]), "w and weights"),
        (lambda _: st.IntegerBernoulliSetEstimator(2, num_values=2), "num_vals and num_values"),
    ],
)
def test_two_names_of_one_argument(call, names):
    with pytest.raises(ValueError, match=f"was given {names}, names of one argument; pass one of them"):
        call(st.GaussianDistribution(0.0, 1.0))


def test_numbers_of_very_many_digits_are_refused_in_words():
    laws = (
        st.PoissonDistribution,
        lambda n: st.GaussianDistribution(n, 1.0),
        lambda n: st.BinomialDistribution(n, 0.5),
    )
    for build in laws:
        with pytest.raises(ValueError, match="not a value of the type int"):
            build(10**5000)


@pytest.mark.parametrize(
    "label",
    [pd.Timestamp("2024-01-02 03:04:05.000006"), pd.Timedelta("3 days"), dt.date(2024, 1, 2), dt.time(3)],
    ids=repr,
)
def test_labels_of_dates_come_back_as_equals(label):
    law = st.CategoricalDistribution({label: 0.25, "other": 0.75})
    again = st.CategoricalDistribution.from_json(law.to_json())
    assert again.pmap == law.pmap
    assert again.digest() == law.digest()


@pytest.mark.parametrize(
    "label", [pd.Timestamp("2024") + pd.Timedelta(1, "ns"), pd.Timedelta(1, "ns"), pd.NaT], ids=repr
)
def test_dates_that_json_would_change_are_refused(label):
    with pytest.raises(SerializationError, match="has no JSON form"):
        st.CategoricalDistribution({label: 0.25, "other": 0.75}).to_json()


DAMAGED = [
    "no json", "{", "[]", "3", '"a"', '{"tuple": 3}', '{"map": [[1]]}', '{"map": [[[1], 2]]}', '{"integer": "zz"}',
    "{}", '{"float": "x"}', '{"bytes": "zz"}', '{"datetime": "x"}', '{"numpy": ["x", 3]}', '{"timedelta": ["a"]}',
    '{"array": [1], "shape": [3], "dtype": "<f8"}', '{"array": [1], "shape": ["a"], "dtype": "O"}',
    '{"type": "GaussianDistribution", "schema": 1, "mu": 0, "sigma2": -1}',
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_json_is_a_serialization_error(text):
    with pytest.raises(SerializationError, match=r"pass what to_json|use another copy"):
        st.GaussianDistribution.from_json(text)


@pytest.mark.parametrize(
    "data", [None, 3, "abc", {"a": 1}, list, object(), np.array(3.0)], ids=lambda d: type(d).__name__
)
def test_what_is_no_sequence_of_rows_is_not_encoded(data):
    with pytest.raises(TypeError, match="seq_encode takes a sequence of rows, not "):
        st.seq_encode(data, model=st.GaussianDistribution(0.0, 1.0))
