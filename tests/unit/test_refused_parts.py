"""What laws and estimators refuse when they are made, or asked for what they cannot do: each says what to pass."""

import inspect
import linecache
import math
import traceback

import numpy as np
import pandas as pd
import pytest

import mixle.stats as st
from mixle.errors import EmptyDataError, RowError, SerializationError, SupportError
from mixle.inference import schedules
from mixle.stats import serialize
from mixle.stats.combinators.fields import FieldsEncoder
from mixle.stats.contract import DataSequenceEncoder
from mixle.stats.table import Table
from mixle.stats.tails import tails_of
from models import MODELS

NORMAL, NEARLY_ZERO = st.GaussianDistribution(0.0, 1.0), st.PoissonDistribution(1e-9)
GAUSSIAN, WORD = st.GaussianEstimator(), st.CategoricalEstimator()
HALF, MOVES = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]


def accumulator_of(estimator, *rows):
    made = estimator.accumulator_factory().make()
    for row in rows:
        made.update(row, 1.0, None)
    return made


def without_rows(estimator):
    return fitted(estimator)


def fitted(estimator, *rows):
    return estimator.estimate(None, accumulator_of(estimator, *rows).value())


class Uncounted(DataSequenceEncoder):
    """An encoder of the least kind."""

    def seq_encode(self, rows):
        return rows


class Nameless(st.GaussianDistribution):
    """A law that does not say what its arguments are."""

    _fields = _keyword_fields = ()


def from_statistic_of(reader, writer, *rows):
    return reader.estimate(None, accumulator_of(reader).from_value(accumulator_of(writer, *rows).value()).value())


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
        (
            lambda: st.JointMixtureDistribution([], [NORMAL], joint_weights=[[1.0]]),
            ValueError,
            "at least one component for each half",
        ),
        (
            lambda: st.JointMixtureDistribution([NORMAL], [NORMAL], joint_weights=[HALF]),
            ValueError,
            r"weights of a JointMixture must have shape \(1, 1\), have \(1, 2\)",
        ),
        (
            lambda: st.JointMixtureDistribution([NORMAL], [NORMAL]),
            ValueError,
            "needs joint_weights, or w1 and taus12, or w2 and taus21",
        ),
        (
            lambda: st.JointMixtureDistribution([NORMAL] * 2, [NORMAL] * 2, HALF, None, [[1.0]]),
            ValueError,
            r"w1 and its taus do not fit 2 and 2 components; pass shapes \(2,\) and \(2, 2\), not",
        ),
        (lambda: st.JointMixtureEstimator([], [GAUSSIAN]), ValueError, "at least one estimator for each half"),
        (
            lambda: st.JointMixtureEstimator([GAUSSIAN], [GAUSSIAN], suff_stat=[1.0]),
            ValueError,
            r"suff_stat must have shape \(1, 1\), has \(1,\)",
        ),
        (lambda: st.HierarchicalMixtureEstimator([], 2), ValueError, "at least one topic estimator"),
        (
            lambda: st.HierarchicalMixtureDistribution([NORMAL] * 2, HALF, [[1.0]]),
            ValueError,
            r"topic_weights must have shape \(2, 2\), have \(1, 1\)",
        ),
        (
            lambda: st.HiddenMarkovEstimator([GAUSSIAN] * 2, suff_stat=([1.0], [[1.0]])),
            ValueError,
            r"pass \(initial counts, shape \(2,\); counts of transitions, shape \(2, 2\)\)",
        ),
        (lambda: st.LDAEstimator([]), ValueError, "needs at least one estimator of a topic"),
        (lambda: st.LDAEstimator([WORD] * 2, fixed_alpha=[1.0, 0.0]), ValueError, "fixed_alpha must be above 0, is"),
        (
            lambda: st.DirichletMultinomialDistribution([1.0], 3),
            ValueError,
            "must be two positive numbers or more, is",
        ),
        (
            lambda: from_statistic_of(st.DirichletMultinomialEstimator(2, 3), st.DirichletMultinomialEstimator(2, 4)),
            ValueError,
            "the statistic is of rows that sum to 4, not 3",
        ),
        (
            lambda: from_statistic_of(st.BinomialEstimator(max_val=5), st.BinomialEstimator(), 7),
            ValueError,
            "the counts run from 7 to 7, outside 0 to 5; raise max_val or lower min_val",
        ),
        (
            lambda: accumulator_of(st.DirichletEstimator()).acc_to_encoder().seq_encode([[1.0]]),
            RowError,
            "a row of shares needs two entries or more",
        ),
        (
            lambda: (
                accumulator_of(st.MultivariateGaussianEstimator(dim=3)).acc_to_encoder().seq_encode(np.ones((4, 2)))
            ),
            RowError,
            "the row has 2 entries, 3 are expected; pass rows of one width",
        ),
        (lambda: st.AffineTransform(0.0, 0.0), ValueError, "scale of an AffineTransform must not be 0"),
        (lambda: st.PowerTransform(0.0), ValueError, "power of a PowerTransform must not be 0"),
        (
            lambda: st.TransformDistribution(NORMAL, "sinh"),
            TypeError,
            "'sinh' is no transform; pass one of exp, identity, log, logit, sqrt, square",
        ),
        (
            lambda: st.TransformDistribution(NORMAL, "sqrt"),
            TypeError,
            "takes numbers above 0, a Gaussian law has others too; use a law of positive numbers",
        ),
        (
            lambda: st.TruncatedDistribution(st.NullDistribution(), allowed=[1]),
            TypeError,
            "what NullDistribution gives beside the allowed values is not known; pass forbidden=",
        ),
        (
            lambda: st.TruncatedDistribution(NEARLY_ZERO, forbidden=[0]).sampler(1).sample(),
            ValueError,
            "hardly any probability; use wider limits",
        ),
        (
            lambda: st.HurdleDistribution(NEARLY_ZERO, 0.5).sampler(1).sample(9),
            ValueError,
            "nearly always zero; give it a base that is not, or pi=1.0",
        ),
        (
            lambda: st.ZeroInflatedDistribution(NORMAL, 0.5),
            TypeError,
            r"has a density; for zeros beside a density use HurdleDistribution\(base, pi\)",
        ),
        (
            lambda: (
                st.IntegerMarkovChainDistribution(
                    2,
                    [HALF] * 4,
                    2,
                    init_dist=st.SequenceDistribution(
                        st.CategoricalDistribution({0: 1.0}), st.PointMassDistribution(1)
                    ),
                    len_dist=st.PointMassDistribution(5),
                )
                .sampler(1)
                .sample()
            ),
            ValueError,
            "the laws of first values and length hardly ever give lag values",
        ),
        (
            lambda: serialize.from_plain({"a": 1, "b": 2}),
            SerializationError,
            "JSON of an unknown form, keys .'a', 'b'.; pass what to_json or to_dict returned",
        ),
        (lambda: st.sums.scale_suff_stat((1.0,), -1.0), ValueError, "scaled by a finite number ≥ 0, not -1.0"),
        (
            lambda: tails_of(st.VonMisesDistribution(0.0, 1.0)),
            TypeError,
            "of VonMisesDistribution is not known here; known are those of Beta, ",
        ),
        (
            lambda: fitted(st.IntegerCategoricalEstimator(), 0, 10**9),
            ValueError,
            "too wide for a table; use Categorical",
        ),
        (
            lambda: accumulator_of(st.HiddenMarkovEstimator([GAUSSIAN] * 2)).acc_to_encoder().seq_encode([[1.0], {2}]),
            RowError,
            r"Row 1 \(Sequence\): \{2\} is not a sequence of elements; pass a list",
        ),
        (
            lambda: FieldsEncoder([Uncounted()]).row_count((None,)),
            NotImplementedError,
            "no field of this payload tells its number of rows",
        ),
        (lambda: Nameless(0.0, 1.0).to_dict(), SerializationError, "no JSON form; give it _fields, the names of its a"),
        (lambda: st.BetaEstimator(1.0, [1.0]), ValueError, r"suff_stat must be a tuple of 2 values, not \[1.0\]"),
        (
            lambda: Table([[1], [1, 2]], ["a", "b"]),
            ValueError,
            r"columns differ in length \('a': 1, 'b': 2\); every column has one value per row",
        ),
        (
            lambda: fitted(st.CategoricalEstimator(prior=st.DirichletDistribution([1.0] * 3)), "a", "b"),
            ValueError,
            "a Dirichlet prior of 3 entries does not fit 2 labels; DictDirichletDistribution names them",
        ),
        (
            lambda: without_rows(st.DiagonalGaussianEstimator(prior=st.NormalGammaDistribution(0.0, 1.0, 1.0, 1.0))),
            EmptyDataError,
            "DiagonalGaussian: without rows the dimension is unknown; pass dim=",
        ),
        (
            lambda: from_statistic_of(st.MarkovChainEstimator(levels=["a"]), st.MarkovChainEstimator(), ["a", "c"]),
            ValueError,
            "the statistic holds the label 'c', none of the levels; add it to levels=",
        ),
        (
            lambda: st.MixtureDistribution([st.DiagonalGaussianDistribution([0.0] * 3, [1.0] * 3)] * 2).seq_log_density(
                accumulator_of(st.DiagonalGaussianEstimator()).acc_to_encoder().seq_encode(np.ones((4, 2)))
            ),
            ValueError,
            "the model has 3 columns, the rows have 2; pass rows of the model's width",
        ),
        (lambda: without_rows(st.ProbabilisticPCAEstimator(1)), EmptyDataError, "dimension is unknown; pass dim="),
        (
            lambda: without_rows(st.MultivariateStudentTEstimator()),
            EmptyDataError,
            r"dimension is unknown; pass MultivariateStudentTEstimator\(dim=",
        ),
        (
            lambda: without_rows(st.VonMisesFisherEstimator(3)),
            ValueError,
            "no direction without rows; pass pseudo_count and suff_stat",
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


#: Estimators of rows with a length, one row that each takes, and a law of lengths that reads no numbers.
LENGTHS = {
    "sequence": (lambda law: st.SequenceEstimator(GAUSSIAN, law), [1.0, 2.0]),
    "hidden Markov model": (lambda law: st.HiddenMarkovEstimator([GAUSSIAN] * 2, law), [1.0, 2.0]),
    "hierarchical mixture": (lambda law: st.HierarchicalMixtureEstimator([GAUSSIAN] * 2, 2, law), [1.0, 2.0]),
    "LDA": (lambda law: st.LDAEstimator([WORD] * 2, law), [("a", 2)]),
    "multinomial": (lambda law: st.MultinomialEstimator(WORD, law), [("a", 2)]),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_that_its_law_cannot_read_is_told_as_the_length_of_its_row(name):
    make, row = LENGTHS[name]
    encoder = accumulator_of(make(st.DiagonalGaussianEstimator())).acc_to_encoder()
    with pytest.raises(RowError, match=r"Row 0, field 'length' \(.*") as caught:
        encoder.seq_encode([row, row])
    assert (caught.value.row, caught.value.fields) == (0, ("length",))


@pytest.mark.parametrize(
    ("name", "begin"), [*((name, True) for name in LENGTHS), ("sequence", False), ("multinomial", False)]
)
def test_a_length_of_no_probability_is_told_as_the_length_of_its_row(name, begin):
    make, row = LENGTHS[name]
    accumulator = accumulator_of(make(st.GammaEstimator()))
    rows = accumulator.acc_to_encoder().seq_encode([row, row[:0]])
    with pytest.raises(SupportError) as caught:
        if begin:
            accumulator.seq_initialize(rows, np.ones(2), np.random.RandomState(1))
        else:
            accumulator.seq_update(rows, np.ones(2), None)
    assert (caught.value.row, caught.value.fields) == (1, ("length",))


#: Estimators with a part that cannot have the number of row 1 of two, and that row's fields.
PARTS = {
    "composite": (st.CompositeEstimator((GAUSSIAN, st.GammaEstimator())), (1.0, 2.0), (1.0, -1.0), (1,)),
    "record": (st.RecordEstimator({"a": st.GammaEstimator()}), {"a": 1.0}, {"a": -1.0}, ("a",)),
    "optional": (st.OptionalEstimator(st.GammaEstimator()), 1.0, -1.0, ()),
    "conditional": (st.ConditionalEstimator({"a": st.GammaEstimator()}), ("a", 1.0), ("a", -1.0), (1,)),
    "select": (st.SelectEstimator([st.GammaEstimator()], lambda _: 0), 1.0, -1.0, ()),
    "weighted": (st.WeightedEstimator(st.GammaEstimator()), (1.0, 1.0), (-1.0, 1.0), None),
    "sequence": (st.SequenceEstimator(st.GammaEstimator()), [1.0, 2.0], [1.0, -1.0], (1,)),
}


#: What wraps one law starts from centres only if that law has some.
CHILD_STARTS = {("optional", "start"), ("weighted", "start"), ("sequence", "start")}


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in PARTS for how in ("update", "initialize", "start") if (name, how) not in CHILD_STARTS],
)
def test_a_value_of_no_probability_names_its_row_and_field_before_there_is_a_model(name, how):
    estimator, good, bad, fields = PARTS[name]
    accumulator = accumulator_of(estimator)
    rows = accumulator.acc_to_encoder().seq_encode([good, bad])
    with pytest.raises(SupportError) as caught:
        if how == "update":
            accumulator.seq_update(rows, np.ones(2), None)
        elif how == "initialize":
            accumulator.seq_initialize(rows, np.ones(2), np.random.RandomState(1))
        else:
            accumulator.start(rows, np.zeros(2), (None,) * 4, 1.0)
    assert caught.value.row == 1
    assert fields is None or caught.value.fields == fields


@pytest.mark.parametrize(("bad", "fields"), [([1.0, -1.0], (1,)), ([], ("length",))])
def test_sequences_that_are_added_to_several_statistics_at_once_name_what_they_refuse(bad, fields):
    law, estimator = st.GammaDistribution(1.0, 1.0), st.GammaEstimator()
    made = [accumulator_of(st.SequenceEstimator(estimator, estimator)) for _ in range(2)]
    rows = made[0].acc_to_encoder().seq_encode([[1.0], bad])
    with pytest.raises(SupportError) as caught:
        type(made[0]).seq_update_all(made, rows, np.ones((2, 2)), [st.SequenceDistribution(law, law)] * 2)
    assert (caught.value.row, caught.value.fields) == (1, fields)


@pytest.mark.parametrize(
    ("kind", "rows", "fields"),
    [
        (st.OptionalEstimator, [None, (1.0, 2.0), (3.0, 1.0), (2.0, -1.0)], (1,)),
        (st.SequenceEstimator, [[], [(1.0, 2.0)], [(3.0, 1.0)], [(1.0, 1.0), (2.0, -1.0)]], (1, 1)),
    ],
)
def test_a_wrapped_law_that_starts_from_centres_names_the_row_among_all(kind, rows, fields):
    estimator = kind(st.CompositeEstimator((st.MixtureEstimator([GAUSSIAN] * 2), st.GammaEstimator())))
    accumulator = accumulator_of(estimator)
    encoder = accumulator.acc_to_encoder()
    encoded, generator = encoder.seq_encode(rows), np.random.RandomState(1)
    centres = estimator.seed_start(encoder.columns(encoded, 0, 4), generator)
    with pytest.raises(SupportError) as caught:
        accumulator.start(encoded, np.zeros(4), centres, 1.0)
    assert (caught.value.row, caught.value.fields) == (3, fields)


def test_first_values_of_no_probability_are_told_as_such():
    first = st.SequenceEstimator(st.GammaEstimator())
    accumulator = accumulator_of(st.IntegerMarkovChainEstimator(2, 1, init_estimator=first))
    rows = accumulator.acc_to_encoder().seq_encode([[1, 1], [0, 1]])
    with pytest.raises(SupportError) as caught:
        accumulator.seq_update(rows, np.ones(2), None)
    assert (caught.value.row, caught.value.fields) == (1, ("first values", 0))


def test_a_terminal_state_that_is_not_reached_is_told_with_what_ends_a_sequence(monkeypatch):
    monkeypatch.setattr("mixle.stats.latent.hmm_sampler.PATIENCE", 1000)
    law = st.HiddenMarkovModelDistribution([NORMAL] * 2, [1.0, 0.0], np.eye(2), terminal_states={1})
    with pytest.raises(ValueError, match="reached in 1000 steps; give a way to one more weight, or use len_dist="):
        law.sampler(1).sample()
