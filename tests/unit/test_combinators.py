"""Combinators: payloads, statistics, errors and what their children are told."""

import math

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import (
    ArityError,
    ContractError,
    NeutralFactorError,
    NonGenerativeSequenceError,
    RowError,
    SupportError,
)
from mixle.stats.combinators.null import NullAccumulator
from mixle.stats.combinators.optional import OptionalRows
from mixle.stats.combinators.sequence import SequenceStatistics

NAN = math.nan


def pair():
    return st.CompositeEstimator([st.GaussianEstimator(), st.PoissonEstimator()])


def encoder_of(estimator):
    return estimator.accumulator_factory().make().acc_to_encoder()


class Told:
    """An estimator that writes down the nobs it is given."""

    def __init__(self, estimator, log):
        self.estimator, self.log = estimator, log

    def accumulator_factory(self):
        return self.estimator.accumulator_factory()

    def estimate(self, nobs, value):
        self.log.append(nobs)
        return self.estimator.estimate(nobs, value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0.0, 1), (0.0,)], "Row 1: expected 2 fields, got 1; write None for what is missing"),
        ([(0.0, 1, 2), (0.0, 1)], "Row 0: expected 2 fields, got 3; give the model a law for each"),
        ([(0.0, 1), "ab"], "Row 1: 'ab' is not a row of 2 fields; pass a tuple"),
        (
            [(0.0, 1), {"a": 0.0, "b": 1}],
            "Row 1: {'a': 0.0, 'b': 1} is not a row of 2 fields; use RecordEstimator for mappings",
        ),
        ([(0.0, 1), 3.0], "Row 1: 3.0 is not a row of 2 fields; pass a tuple"),
        ([(0.0, 1), None], "Row 1: None is not a row of 2 fields; pass a tuple"),
        (
            [(0.0, 1), ("x", 1)],
            "Row 1, field 0 (Gaussian): 'x' is not a number; convert it, or use Categorical for labels",
        ),
        (np.zeros((4, 3)), "Row 0: expected 2 fields, got 3; give the model a law for each"),
    ],
)
def test_rows_of_another_form_are_refused_by_row(rows, message):
    with pytest.raises(RowError) as caught:
        encoder_of(pair()).seq_encode(rows)
    assert str(caught.value) == message
    if "field 0" not in message:
        assert isinstance(caught.value, ContractError)
        assert isinstance(caught.value, ArityError)


def test_wrong_arity_of_a_single_row_is_a_contract_error():
    dist = st.CompositeDistribution((st.GaussianDistribution(0.0, 1.0), st.PoissonDistribution(1.0)))
    with pytest.raises(ContractError, match="expected 2 fields, got 1"):
        dist.log_density((1.0,))


def test_the_first_bad_row_is_named_whichever_field_it_is_in():
    rows = [(0.0, 1), (0.0, NAN), (NAN, 1)]
    with pytest.raises(RowError, match=r"Row 1, field 1"):
        encoder_of(pair()).seq_encode(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [[0.5, 1], [1.5, 2]],
        ((0.5, 1), (1.5, 2)),
        [np.array([0.5, 1.0]), np.array([1.5, 2.0])],
        np.array([[0.5, 1.0], [1.5, 2.0]]),
        np.array([[0.5, 1], [1.5, 2]], dtype=object),
        np.array([(0.5, 1), (1.5, 2)], dtype=[("x", float), ("n", int)]),
    ],
)
def test_every_form_of_a_table_reads_the_same(rows):
    value = statistic(pair(), rows)
    assert bits(value) == bits(statistic(pair(), [(0.5, 1), (1.5, 2)]))


def test_an_object_array_of_tuples_is_rows():
    rows = np.empty(2, object)
    rows[:] = [(0.5, "a"), (1.5, "b")]
    estimator = st.CompositeEstimator([st.GaussianEstimator(), st.CategoricalEstimator()])
    assert bits(statistic(estimator, rows)) == bits(statistic(estimator, [(0.5, "a"), (1.5, "b")]))


def test_columns_of_a_float_array_are_views():
    rows = np.random.RandomState(0).rand(100, 2)
    payload = encoder_of(st.CompositeEstimator([st.GaussianEstimator()] * 2)).seq_encode(rows)
    assert all(np.shares_memory(part, rows) for part in payload)


def test_statistics_of_another_arity_are_refused():
    value = statistic(pair(), [(0.0, 1)])
    accumulator = pair().accumulator_factory().make()
    for wrong in (value[:1], (*value, None), ()):
        with pytest.raises(ValueError, match="2 are expected"):
            accumulator.combine(wrong)
        with pytest.raises(ValueError, match="2 are expected"):
            accumulator.from_value(wrong)
        with pytest.raises(ContractError, match="2 are expected"):
            pair().estimate(None, wrong)


def test_fields_name_the_row_that_a_fit_refuses():
    inner = st.CompositeEstimator([st.GaussianEstimator(), st.OptionalEstimator(st.GammaEstimator())])
    estimator = st.RecordEstimator({"a": inner, "b": st.PoissonEstimator()})
    rows = [{"a": (0.0, None), "b": 1}, {"a": (0.0, 1.0), "b": 1}, {"a": (0.0, -1.0), "b": 1}]
    with pytest.raises(SupportError) as caught:
        statistic(estimator, rows)
    assert (caught.value.row, caught.value.fields) == (2, ("a", 1))
    assert str(caught.value) == (
        "Row 2, field 'a', field 1 (Gamma): the value is outside the numbers > 0; "
        "leave the row out, or use a model that supports it"
    )


def test_nobs_reaches_the_children_as_documented():
    log = []
    child = Told(st.PoissonEstimator(), log)
    value = ((1.0, 3.0), (3.0, 6.0))
    st.OptionalEstimator(child).estimate(4.0, value)
    st.SequenceEstimator(child, child).estimate(9.0, SequenceStatistics(1, 5.0, 2.0, (5.0, 5.0), (2.0, 5.0)))
    st.CompositeEstimator([child, child]).estimate(7.0, ((1.0, 1.0), (1.0, 1.0)))
    st.RecordEstimator({"a": child}).estimate(None, ((1.0, 1.0),))
    assert log == [3.0, 5.0, 2.0, 7.0, 7.0, None]


def test_a_composite_needs_a_field_and_so_does_a_record():
    for build in (st.CompositeDistribution, st.CompositeEstimator):
        with pytest.raises(ValueError, match="at least one"):
            build([])
    for build in (st.RecordDistribution, st.RecordEstimator):
        with pytest.raises(ValueError, match="at least one"):
            build({})
        with pytest.raises(ValueError, match="twice"):
            build((["a", "a"], [st.NullDistribution()] * 2))
        with pytest.raises(ValueError, match="2 field names and 1 parts"):
            build((["a", "b"], [st.NullDistribution()]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"x": 0.0}, "Row 1, field 'n': the field is missing; the row has 'x'"),
        ({}, "Row 1, field 'x': the field is missing; the row has none"),
        ({"x": 0.0, "n": 1, "z": 1}, "Row 1, field 'z': the record has no such field; it has 'x', 'n'"),
        ({"x": 0.0, "m": 1}, "Row 1, field 'n': the field is missing; the row has 'x', 'm'"),
        ((0.0, 1), "Row 1: (0.0, 1) is not a mapping; it needs the fields 'x', 'n'"),
    ],
)
def test_records_have_exactly_their_fields(row, message):
    encoder = encoder_of(st.RecordEstimator({"x": st.GaussianEstimator(), "n": st.PoissonEstimator()}))
    with pytest.raises(ContractError) as caught:
        encoder.seq_encode([{"x": 0.0, "n": 1}, row])
    assert str(caught.value) == message


def test_records_take_any_mapping_in_any_order():
    from types import MappingProxyType

    estimator = st.RecordEstimator({"x": st.GaussianEstimator(), "n": st.PoissonEstimator()})
    rows = [MappingProxyType({"n": 1, "x": 0.5}), {"x": 1.5, "n": 2}]
    assert bits(statistic(estimator, rows)) == bits(statistic(pair(), [(0.5, 1), (1.5, 2)]))
    assert estimator.keys == ("x", "n")


def test_a_record_keeps_its_order_through_json():
    dist = st.RecordDistribution({"b": st.PoissonDistribution(1.0), "a": st.PoissonDistribution(2.0)})
    assert st.RecordDistribution.from_json(dist.to_json()).keys == ("b", "a")


OPTIONAL_CASES = [
    # sentinel, rows, present
    (None, [1.0, None, NAN, np.float32("nan"), 2.0], [0, 4]),
    (None, np.array([1.0, NAN, 3.0]), [0, 2]),
    (None, np.array([1, 2, 3]), None),
    (None, [None, None], []),
    (NAN, [1.0, NAN, 2.0, np.float64(NAN)], [0, 2]),
    (NAN, np.array([NAN, 1.0]), [1]),
    (-1, [1, -1, -1.0, 3], [0, 3]),
    (-1, np.array([1, -1, 3]), [0, 2]),
    (-1, np.array([1.0, -1.0]), [0]),
    (0, [5, False, 0.0], [0]),
]


@pytest.mark.parametrize(("sentinel", "rows", "present"), OPTIONAL_CASES)
def test_missing_rows_are_told_by_the_sentinel(sentinel, rows, present):
    encoder = encoder_of(st.OptionalEstimator(st.GaussianEstimator(), sentinel))
    payload = encoder.seq_encode(rows)
    assert isinstance(payload, OptionalRows)
    assert encoder.row_count(payload) == len(rows)
    assert (None if payload.present is None else payload.present.tolist()) == present
    if present is not None:
        assert payload.present.dtype == np.int32
        assert encoder.encoder.row_count(payload.payload) == len(present)


def test_a_sentinel_may_be_any_object():
    marker = object()
    rows = ["a", marker, "b", "?"]
    for sentinel, present in ((marker, [0, 2, 3]), ("?", [0, 1, 2]), (("t",), None)):
        encoder = encoder_of(st.OptionalEstimator(st.CategoricalEstimator(), sentinel))
        found = encoder.seq_encode(rows).present
        assert (None if found is None else found.tolist()) == present


def test_vectors_are_missing_as_a_whole():
    estimator = st.OptionalEstimator(st.MultivariateGaussianEstimator(2), est_prob=True)
    rows = [[0.0, 1.0], None, [1.0, 0.0], [3.0, 3.0]]
    assert estimator.estimate(None, statistic(estimator, rows)).p == 0.25
    with pytest.raises(RowError) as caught:
        statistic(estimator, [None, [0.0, 1.0], [0.0, NAN]])
    assert (caught.value.row, caught.value.fields) == (2, (1,))
    with pytest.raises(RowError):
        statistic(st.OptionalEstimator(st.MultivariateGaussianEstimator(2), -9.0), [np.zeros(2), None])


def test_scores_of_missing_and_present_rows():
    child = st.PoissonDistribution(2.0)
    d = st.OptionalDistribution(child, p=0.25)
    assert d.log_density(None) == math.log(0.25)
    assert d.log_density(3) == pytest.approx(math.log(0.75) + child.log_density(3))
    assert d.log_density(-1) == -math.inf
    marginal = st.OptionalDistribution(child)
    assert marginal.log_density(None) == 0.0
    assert marginal.log_density(3) == child.log_density(3)
    never, always = st.OptionalDistribution(child, p=0.0), st.OptionalDistribution(child, p=1.0)
    assert (never.log_density(None), never.log_density(3)) == (-math.inf, child.log_density(3))
    assert (always.log_density(None), always.log_density(3)) == (0.0, -math.inf)


@pytest.mark.parametrize(
    ("estimator", "p"),
    [
        (st.OptionalEstimator(st.PoissonEstimator()), None),
        (st.OptionalEstimator(st.PoissonEstimator(), est_prob=True), 0.2),
        (st.OptionalEstimator(st.PoissonEstimator(), est_prob=True, pseudo_count=2.5), 0.35),
    ],
)
def test_the_probability_of_a_missing_value(estimator, p):
    assert estimator.estimate(None, ((1.0, 4.0), (4.0, 8.0))).p == (None if p is None else pytest.approx(p))


def test_without_any_row_missing_is_as_likely_as_not():
    estimator = st.OptionalEstimator(st.PoissonEstimator(), est_prob=True)
    assert estimator.estimate(0.0, estimator.accumulator_factory().make().value()).p == 0.5


def test_optional_value_is_the_documented_layout():
    estimator = st.OptionalEstimator(st.PoissonEstimator())
    assert statistic(estimator, [1, None, 2], [1.0, 0.5, 2.0]) == ((0.5, 3.0), (3.0, 5.0))


def test_optional_columns_mark_what_is_missing():
    estimator = st.CompositeEstimator(
        [
            st.OptionalEstimator(st.GaussianEstimator()),
            st.OptionalEstimator(st.CategoricalEstimator()),
            st.NullEstimator(),
        ]
    )
    encoder = encoder_of(estimator)
    rows = [(None, "a", 0), (1.0, None, 0), (2.0, "b", 0)]
    x, label = encoder.columns(encoder.seq_encode(rows), 0, 3)
    assert x.missing.tolist() == [True, False, False]
    assert x.values[1:].tolist() == [1.0, 2.0]
    assert label.missing.tolist() == [False, True, False]
    assert [label.labels[i] for i in label.values[[0, 2]]] == ["a", "b"]
    only = encoder_of(st.OptionalEstimator(st.NullEstimator()))
    (column,) = only.columns(only.seq_encode([None, 1]), 0, 2)
    assert column.missing.tolist() == [True, False]


def test_sequences_of_every_form():
    estimator = st.SequenceEstimator(st.GaussianEstimator(), st.PoissonEstimator())
    plain = statistic(estimator, [[1.0, 2.0], [], [3.0]])
    assert isinstance(plain, SequenceStatistics)
    assert (plain.schema_version, plain.element_nobs, plain.length_nobs) == (1, 3.0, 3.0)
    assert plain.lengths == (3.0, 3.0)
    for rows in ([(1.0, 2.0), (), (3.0,)], [np.array([1.0, 2.0]), np.array([]), np.array([3.0])]):
        assert bits(statistic(estimator, rows)) == bits(plain)
    assert bits(statistic(estimator, np.ones((3, 2)))) == bits(statistic(estimator, [[1.0, 1.0]] * 3))
    letters = st.SequenceEstimator(st.CategoricalEstimator())
    assert bits(statistic(letters, ["ab", "b"])) == bits(statistic(letters, [["a", "b"], ["b"]]))


def test_a_normalised_sequence_shares_its_weight_among_its_elements():
    estimator = st.SequenceEstimator(st.PoissonEstimator(), len_normalized=True)
    value = statistic(estimator, [[1, 3], [], [5]], [1.0, 1.0, 2.0])
    assert (value.element_nobs, value.length_nobs, value.elements) == (3.0, 4.0, (3.0, 12.0))
    d = st.SequenceDistribution(st.PoissonDistribution(2.0), len_normalized=True)
    one = st.PoissonDistribution(2.0)
    assert d.log_density([1, 3]) == pytest.approx((one.log_density(1) + one.log_density(3)) / 2)
    assert d.log_density([]) == 0.0


def test_sequence_scaling_leaves_the_schema_version():
    value = SequenceStatistics(1, 2.0, 1.0, (2.0, 3.0), None)
    assert st.scale_suff_stat(value, 0.5) == SequenceStatistics(1, 1.0, 0.5, (1.0, 1.5), None)


def test_a_fixed_length_law_stays_and_is_scored():
    law = st.GeometricDistribution(0.5)
    estimator = st.SequenceEstimator(st.PoissonEstimator(), len_dist=law)
    fitted = estimator.estimate(None, statistic(estimator, [[1], [2, 3]]))
    assert fitted.len_dist is law
    learned = st.SequenceEstimator(st.PoissonEstimator(), st.GeometricEstimator(), len_dist=law)
    assert learned.estimate(None, statistic(learned, [[1], [2, 3]])).len_dist.p == pytest.approx(2 / 3)


@pytest.mark.parametrize("row", [3.0, None, {"a": 1.0}, {1.0, 2.0}, np.array(1.0), iter([1.0])])
def test_what_is_no_sequence_is_refused_by_row(row):
    encoder = encoder_of(st.SequenceEstimator(st.GaussianEstimator()))
    with pytest.raises(RowError, match=r"^Row 1 \(Sequence\)"):
        encoder.seq_encode([[1.0], row])


def test_the_element_that_a_fit_refuses_is_named():
    estimator = st.SequenceEstimator(st.PoissonEstimator(), st.GeometricEstimator())
    with pytest.raises(SupportError) as caught:
        statistic(estimator, [[1], [2, 3, -1], [-5]])
    assert (caught.value.row, caught.value.fields) == (1, (2,))
    with pytest.raises(SupportError) as caught:
        statistic(estimator, [[1], []])
    assert (caught.value.row, caught.value.fields) == (1, ("length",))


def test_sequence_columns_are_length_and_means():
    child = st.CompositeEstimator(
        [st.GaussianEstimator(), st.CategoricalEstimator(), st.OptionalEstimator(st.PoissonEstimator())]
    )
    encoder = encoder_of(st.SequenceEstimator(child))
    payload = encoder.seq_encode([[(1.0, "a", 2), (3.0, "b", None)], [], [(5.0, "a", None)]])
    length, mean, counts = encoder.columns(payload, 0, 3)
    assert length.values.tolist() == [2.0, 0.0, 1.0]
    assert mean.values.tolist() == [2.0, 0.0, 5.0]
    assert mean.missing.tolist() == [False, True, False]
    assert counts.values.tolist()[0] == 2.0
    assert counts.missing.tolist() == [False, True, True]


def test_what_cannot_be_sampled_says_so():
    with pytest.raises(NeutralFactorError, match="no law"):
        st.NullDistribution().sampler().sample()
    with pytest.raises(NonGenerativeSequenceError, match="len_dist="):
        st.SequenceDistribution(st.PoissonDistribution(1.0)).sampler().sample(3)


def test_ignored_parts_are_scored_and_kept():
    law = st.GaussianDistribution(5.0, 2.0)
    estimator = st.CompositeEstimator([st.IgnoredEstimator(law), st.PoissonEstimator()])
    fitted = estimator.estimate(None, statistic(estimator, [(0.0, 1), (100.0, 3)]))
    assert fitted.dists[0].dist is law
    assert fitted.dists[1].lam == 2.0
    assert fitted.log_density((5.0, 2)) == law.log_density(5.0) + fitted.dists[1].log_density(2)
    assert statistic(estimator, [(0.0, 1)])[0] is None
    assert encoder_of(estimator).columns(encoder_of(estimator).seq_encode([(0.0, 1)]), 0, 1)[0].values.tolist() == [1.0]


def test_a_composite_of_nothing_but_null_knows_its_rows():
    d = st.CompositeDistribution((st.NullDistribution(), st.NullDistribution()))
    payload = d.dist_to_encoder().seq_encode([(1, 2), (3, 4)])
    assert d.dist_to_encoder().row_count(payload) == 2
    assert d.seq_log_density(payload).tolist() == [0.0, 0.0]
    assert NullAccumulator().value() is None


def test_children_take_seeds_of_their_own_from_one_stream():
    d = st.CompositeDistribution((st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(0.0, 1.0)))
    rows = np.array(d.sampler(3).sample(200))
    assert abs(np.corrcoef(rows.T)[0, 1]) < 0.3


def test_every_position_of_a_mixture_tree_has_a_stack_node():
    for dist in (
        st.CompositeDistribution((st.NullDistribution(),)),
        st.RecordDistribution({"a": st.NullDistribution()}),
    ):
        kind, children = dist.stack_node()
        assert (kind, len(children)) == ("composite", 1)
        assert dist.estimator().stack_node()[0] == "composite"
    optional = st.OptionalDistribution(st.UniformDistribution(0.0, 1.0))
    assert optional.stack_node() == ("optional", optional.dist)
    assert (optional.log_missing, optional.log_present) == (0.0, 0.0)
    assert optional.dist.stack_node()[1].kind == "general"
    assert st.SequenceDistribution(optional).stack_node() is None
    assert getattr(st.IgnoredDistribution(optional), "stack_node", lambda: None)() is None
    edge = st.OptionalDistribution(optional.dist, p=0.0)
    assert math.isfinite(edge.log_missing)
    assert edge.log_missing < -1e299
