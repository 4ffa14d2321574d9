"""What a fitted model tells about its fit."""

import pickle

import pytest
from fit_support import BrokenWaits, SpyHandle, WaitEstimator, WaitModel, clusters, counted

from mixle.inference import EMStep, FitProvenance, optimize
from mixle.inference.provenance import attach
from mixle.stats import (
    CategoricalEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
    UniformDistribution,
    UniformEstimator,
)

FIELDS = (
    "algorithm estimator objective iterations max_iterations converged delta final_objective objective_gain "
    "n_observations repairs seed last_accepted_objective"
).split()


def mixture(k=2):
    return MixtureEstimator([GaussianEstimator() for _ in range(k)])


def test_documented_fields_come_first_and_in_order():
    assert list(FitProvenance._fields[: len(FIELDS)]) == FIELDS
    assert EMStep._fields == ("iter", "model", "log_density", "delta")


def test_a_fit_is_described():
    rows = clusters(centres=(0.0, 9.0))
    steps = []
    model = optimize(rows, mixture(), max_its=400, delta=1e-6, seed=11, on_step=steps.append)
    handle = counted(rows, mixture())
    told = model.fit_provenance()
    assert told.algorithm == "fused-em"
    assert told.estimator == "MixtureEstimator"
    assert told.objective == "mle"
    assert told.iterations == len(steps)
    assert told.max_iterations == 400
    assert told.converged is True
    assert told.stopped == "converged"
    assert told.delta == 1e-6
    assert told.final_objective == told.last_accepted_objective == handle.pysp_seq_log_density_sum(model)[1]
    assert told.objective_gain == steps[-1].delta
    assert 0.0 <= told.objective_gain < 1e-6
    assert told.n_observations == len(rows)
    assert told.repairs == ()
    assert told.seed == 11
    assert told.left_out == 0


def test_a_handle_that_was_handed_in_leaves_the_rows_unknown():
    handle = counted(clusters(), GaussianEstimator())
    assert optimize(None, GaussianEstimator(), enc_data=handle).fit_provenance().n_observations is None


def test_provenance_is_no_part_of_the_model():
    rows = clusters()
    a = optimize(rows, GaussianEstimator(), seed=1)
    b = optimize(rows, GaussianEstimator(), seed=2)
    assert a.fit_provenance() != b.fit_provenance()
    assert a.digest() == b.digest()
    assert str(a) == str(b)
    assert GaussianDistribution(0.0, 1.0).fit_provenance() is None


def test_it_survives_pickling_and_equals_itself():
    model = optimize(clusters(), mixture(), max_its=300, delta=1e-6)
    assert pickle.loads(pickle.dumps(model)).fit_provenance() == model.fit_provenance()


def test_the_callers_start_is_not_touched():
    rows = clusters()
    start = optimize(rows, GaussianEstimator(), seed=1)
    before = start.fit_provenance()
    model = optimize(rows, GaussianEstimator(), prev_estimate=start, vdata=rows, max_its=3, delta=None)
    assert start.fit_provenance() is before
    assert model is not start
    assert model.fit_provenance().max_iterations == 3


def test_a_start_that_stays_best_comes_back_as_a_copy():
    start = GaussianDistribution(0.0, 1.0)
    model = attach(start, "told", owner=start)
    assert model is not start
    assert (model.fit_provenance(), start.fit_provenance()) == ("told", None)
    assert str(model) == str(start)


def test_a_start_that_no_step_improves_comes_back_untouched():
    start = WaitModel(0.6)
    model = optimize([1.0, 2.0], BrokenWaits([3.0]), prev_estimate=start)
    assert model.rate == 0.6
    assert model._fit_provenance.stopped == "rejected"
    assert model._fit_provenance.objective_gain == 0.0
    assert not hasattr(start, "_fit_provenance")


def test_models_without_room_for_it_are_returned_as_they_are():
    class Slotted:
        __slots__ = ("rate",)

    model = Slotted()
    assert attach(model, "told") is model
    assert optimize([1.0, 3.0], WaitEstimator())._fit_provenance.estimator == "WaitEstimator"


def split_uniforms():
    return MixtureDistribution([UniformDistribution(0.0, 1.0), UniformDistribution(5.0, 6.0)], [0.5, 0.5])


def test_rows_that_no_component_supports_are_left_out_counted_and_reported():
    rows = [0.1, 0.9, 5.2, 5.8, 3.0, 0.5]
    start = split_uniforms()
    with pytest.warns(UserWarning, match="1 row is supported by no component") as seen:
        model = optimize(rows, start.estimator(), prev_estimate=start, max_its=20)
    assert len([w for w in seen if "supported" in str(w.message)]) == 1
    told = model.fit_provenance()
    assert told.left_out == 1
    assert told.repairs[0] == "1 row is supported by no component and left out of the fit"
    assert told.converged
    without = optimize([row for row in rows if row != 3.0], start.estimator(), prev_estimate=start, max_its=20)
    assert str(model) == str(without)
    assert told.final_objective == pytest.approx(without.fit_provenance().final_objective)


@pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")
@pytest.mark.parametrize("options", [{}, {"reuse_estep_ll": False}])
def test_a_start_that_misses_a_label_is_drawn_again_from_all_rows(options):
    rows = ["a"] * 60 + ["b"]
    model = optimize(rows, MixtureEstimator([CategoricalEstimator()] * 2), init_p=0.01, seed=1, **options)
    told = model.fit_provenance()
    assert told.repairs[0] == "the start left 1 of the rows out; it was drawn again from all rows"
    assert told.left_out == 0
    assert model.density("b") == pytest.approx(1 / 61)


@pytest.mark.filterwarnings("ignore:1 row is supported:UserWarning")
@pytest.mark.parametrize("its", [1, 2, 20])
def test_rows_are_left_out_alike_on_every_path(its):
    rows = [0.1, 0.9, 5.2, 5.8, 3.0, 0.5]
    options = {"prev_estimate": split_uniforms(), "max_its": its, "delta": None}
    fused = optimize(rows, split_uniforms().estimator(), **options)
    for slow in (
        optimize(rows, split_uniforms().estimator(), reuse_estep_ll=False, **options),
        optimize(None, None, enc_data=counted(rows, split_uniforms().estimator(), kind=SpyHandle), **options),
    ):
        assert slow.digest() == fused.digest()
        assert slow.fit_provenance().final_objective == fused.fit_provenance().final_objective
        assert slow.fit_provenance().left_out == 1


@pytest.mark.filterwarnings("ignore:1 row is supported:UserWarning")
def test_no_pass_is_spent_on_a_score_that_cannot_tell_rows_apart():
    handle = counted([0.1, 0.9, 5.2, 3.0], split_uniforms().estimator())
    optimize(None, None, enc_data=handle, prev_estimate=split_uniforms(), max_its=1, delta=None)
    assert handle.transport.tasks == ["Accumulate", "Accumulate"]


class Shrinking(MixtureEstimator):
    """An M-step whose models support less and less."""

    def estimate(self, nobs, suff_stat):
        return MixtureDistribution([UniformDistribution(*bounds) for bounds in self.bounds], [0.5, 0.5])

    @classmethod
    def to(cls, *bounds):
        made = cls([UniformEstimator(), UniformEstimator()])
        made.bounds = bounds
        return made


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("its", [1, 2])
def test_a_step_that_explains_fewer_rows_is_rejected(its, fused):
    options = {"prev_estimate": split_uniforms(), "max_its": its, "delta": 1e-9, "reuse_estep_ll": fused}
    rows = [0.1, 0.9, 5.2, 5.8]
    strict = optimize(rows, Shrinking.to((0.0, 1.0), (5.0, 5.3)), **options)
    assert strict.digest() == split_uniforms().digest()
    assert strict.fit_provenance().stopped == "rejected"
    with pytest.warns(UserWarning, match="after 1 iteration: the last step gained -inf and was rejected"):
        none_left = optimize(rows, Shrinking.to((2.0, 2.5), (3.0, 3.5)), monotone=False, **options)
    assert none_left.digest() == split_uniforms().digest()


@pytest.mark.filterwarnings("ignore:1 row is supported:UserWarning")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("its", [1, 2])
def test_without_monotone_it_is_accepted_at_the_cap_and_before(its, fused):
    options = {"max_its": its, "delta": None, "monotone": False, "track_best": False, "reuse_estep_ll": fused}
    model = optimize(
        [0.1, 0.9, 5.2, 5.8], Shrinking.to((0.0, 1.0), (5.0, 5.3)), prev_estimate=split_uniforms(), **options
    )
    assert model.fit_provenance().left_out == 1


def test_a_fit_that_leaves_out_every_row_is_an_error():
    start = split_uniforms()
    with pytest.raises(ValueError, match="no component supports any"):
        optimize([3.0, 4.0], start.estimator(), prev_estimate=start)
