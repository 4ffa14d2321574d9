"""balance and model_decomposition: documented numbers, memory that is kept, measured speeds."""

import numpy as np
import pytest

from mixle import stats
from mixle.utils.parallel import balance, model_decomposition
from mixle.utils.parallel.balance import auto_balanced_estimator, balance_plan
from mixle.utils.parallel.em_observability import RankRecord, plan_rebalance_weights
from mixle.utils.parallel.model_decomposition import (
    DecompAxis,
    ReductionOp,
    best_parallel_axis,
    compute_cost,
    decompose_model,
    size_model_tree,
    tree_axes,
)
from mixle.utils.parallel.planner import CalibrationCatalog, CalibrationRecord, DeviceSpec, Resources

GAUSSIAN = stats.GaussianDistribution(0.0, 1.0)


def mixture(count):
    return stats.MixtureDistribution([stats.GaussianDistribution(float(k), 1.0) for k in range(count)])


def wide(count, d=20):
    return stats.MixtureDistribution(
        [stats.MultivariateGaussianDistribution(np.full(d, float(k)), np.eye(d)) for k in range(count)]
    )


def ranges(plan):
    return [(cut.start, cut.stop) for cut in plan.model_cuts]


def test_public_names_carry_the_documented_modules():
    assert balance.__all__ == ["BalancePlan", "auto_balanced_estimator", "balance_plan"]
    assert {getattr(balance, name).__module__ for name in balance.__all__} == {"mixle.utils.parallel.balance"}
    own = [n for n in model_decomposition.__all__ if n not in {"DecompAxis", "Decomposition", "ReductionOp"}]
    assert {getattr(model_decomposition, n).__module__ for n in own} == {"mixle.utils.parallel.model_decomposition"}


def test_a_scalar_gaussian_costs_five_and_its_numbers_have_bytes():
    assert compute_cost(GAUSSIAN) == (5.0, 48)
    work, size = compute_cost(wide(4))
    assert work > 4 * 2 * 400
    assert size > 4 * 2 * 400 * 8


def test_a_part_that_is_used_twice_costs_once():
    twice = stats.CompositeDistribution((GAUSSIAN, GAUSSIAN))
    assert compute_cost(twice)[0] == compute_cost(stats.CompositeDistribution((GAUSSIAN,)))[0]


@pytest.mark.parametrize(
    ("model", "axis", "reduction", "roles"),
    [
        (GAUSSIAN, "NONE", "REPLICATE", ()),
        (mixture(2), "COMPONENT", "LOGSUMEXP_RESPONSIBILITY", ("component_0", "component_1")),
        (stats.CompositeDistribution((GAUSSIAN, GAUSSIAN)), "FACTOR", "SUM", ("factor_0", "factor_1")),
        (stats.RecordDistribution({"a": GAUSSIAN, "b": GAUSSIAN}), "FACTOR", "SUM", ("a", "b")),
        (stats.SequenceDistribution(GAUSSIAN), "SEQUENCE", "SUM", ()),
        (
            stats.HiddenMarkovModelDistribution([GAUSSIAN, GAUSSIAN], [0.5, 0.5], [[0.5, 0.5]] * 2),
            "STATE", "SUM", ("state_0", "state_1"),
        ),
        (stats.ConditionalDistribution({"a": GAUSSIAN, "b": GAUSSIAN}), "NONE", "REPLICATE", ()),
        (stats.SelectDistribution([GAUSSIAN, GAUSSIAN], abs), "NONE", "REPLICATE", ()),
        (stats.SemiSupervisedMixtureDistribution([GAUSSIAN, GAUSSIAN]), "NONE", "REPLICATE", ()),
        (stats.MultinomialDistribution(stats.PoissonDistribution(1.0)), "NONE", "REPLICATE", ()),
    ],
)  # fmt: skip
def test_decompositions_are_the_documented_ones(model, axis, reduction, roles):
    found = model.decomposition()
    assert (found.axis, found.reduction, found.child_roles) == (DecompAxis[axis], ReductionOp[reduction], roles)
    assert found.is_shardable is (len(roles) > 1)


def test_an_axis_of_arrays_is_told_where_components_are_of_one_family():
    assert mixture(2).decomposition().engine_axis == 0
    assert stats.GaussianMixtureDistribution([[0.0], [1.0]], [[1.0], [1.0]]).decomposition().engine_axis == 0
    assert stats.HeterogeneousMixtureDistribution([GAUSSIAN, GAUSSIAN]).decomposition().engine_axis is None


def test_a_component_that_is_used_twice_makes_no_work_negative():
    plan = balance_plan(stats.MixtureDistribution([GAUSSIAN] * 6), Resources.local(4), n_data=1)
    assert (plan.model_parallel, plan.extra["per_cut_flops"]) == (4, (5.0, 10.0, 5.0, 10.0))
    assert plan.per_worker_flops == 10.0


def test_axes_are_found_anywhere_in_the_tree():
    tree = stats.CompositeDistribution((GAUSSIAN, mixture(4)))
    assert [(axis.path, axis.num_units) for axis in tree_axes(tree)] == [("/", 2), ("factor_1", 4)]
    assert best_parallel_axis(tree, 4).path == "factor_1"
    assert best_parallel_axis(tree, 4, allowed_axes=frozenset({DecompAxis.FACTOR})).path == "/"
    assert best_parallel_axis(GAUSSIAN, 4) is None
    sizes = size_model_tree(tree)
    assert [child.path for child in sizes.children] == ["factor_0", "factor_1"]
    assert sizes.subtree_param_bytes == compute_cost(tree)[1]


def test_decompose_prefers_data_parallel_where_it_should():
    four = Resources.local(4)
    assert ranges_of(decompose_model(mixture(8), four)) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert not decompose_model(mixture(4), four, n_data=1000).is_model_parallel
    assert decompose_model(mixture(4), four, n_data=4).is_model_parallel
    assert decompose_model(mixture(4), four, prefer_data_parallel=False).is_model_parallel
    assert decompose_model(GAUSSIAN, four).rationale.startswith("no worthwhile shardable axis")
    assert len(decompose_model(mixture(8), four, min_components_per_shard=4).cuts) == 2


def ranges_of(decomposition):
    return [(cut.start, cut.stop) for cut in decomposition.cuts]


@pytest.mark.parametrize(
    ("model", "workers", "rows", "grid", "cuts", "words"),
    [
        (GAUSSIAN, 4, 1000, (4, 1), [], "data-parallel: model fits and N=1000 fills 4/4 workers"),
        (GAUSSIAN, 4, 2, (2, 1), [], "single-worker (2/4 used): N=2 too small"),
        (mixture(8), 4, 1000, (4, 1), [], "data-parallel: model fits"),
        (mixture(8), 4, 2, (2, 2), [(0, 4), (4, 8)], "data x model grid 2x2=4/4: model split 2-way"),
        (mixture(8), 4, 3, (2, 2), [(0, 4), (4, 8)], "data x model grid 2x2=4/4"),
        (mixture(8), 4, 1, (1, 4), [(0, 2), (2, 4), (4, 6), (6, 8)], "model-parallel x4: N=1 too small"),
        (mixture(3), 8, 1, (1, 3), [(0, 1), (1, 2), (2, 3)], "model-parallel x3: N=1 too small"),
    ],
)
def test_grids_are_the_documented_ones(model, workers, rows, grid, cuts, words):
    plan = balance_plan(model, Resources.local(workers), n_data=rows)
    assert ((plan.data_parallel, plan.model_parallel), ranges(plan)) == (grid, cuts)
    assert plan.rationale.startswith(words)
    assert plan.workers_used == grid[0] * grid[1]
    assert plan.workers_idle == workers - plan.workers_used
    assert plan.fits is None
    assert plan.rationale.endswith("[MEMORY FIT UNKNOWN: at least one assigned device has no memory evidence]")
    assert plan.is_model_parallel is (grid[1] > 1)
    assert plan.per_worker_flops == -(-rows // grid[0]) * max(plan.extra["per_cut_flops"])


@pytest.mark.parametrize(("share", "m"), [(1.1, 1), (0.6, 2), (0.5, 4), (0.27, 4)])
def test_a_model_too_large_for_a_device_is_divided_until_it_fits(share, m):
    """Half of the memory is not enough for halves: each part holds the weights too."""
    model = wide(4)
    memory = int(compute_cost(model)[1] * share)
    plan = balance_plan(model, Resources.local(4, memory_bytes=4 * memory), n_data=1000)
    assert (plan.model_parallel, plan.fits) == (m, True)
    assert max(plan.extra["per_cut_bytes"]) <= memory


def test_what_cannot_fit_says_what_would():
    model = wide(4)
    memory = compute_cost(model)[1] // 10
    plan = balance_plan(model, Resources.local(4, memory_bytes=4 * memory), n_data=1000)
    assert (plan.fits, plan.model_parallel, plan.extra["fit_status"]) == (False, 4, "does_not_fit")
    assert "[WARNING: model needs 11 shards for memory but axis offers only 4]" in plan.rationale
    assert plan.extra["remedy"].startswith(f"give each device memory_bytes={max(plan.extra['per_cut_bytes'])}")


def test_slow_devices_get_fewer_components():
    devices = Resources((DeviceSpec("a", throughput=1.0), DeviceSpec("b", throughput=3.0)))
    assert ranges(balance_plan(mixture(8), devices, n_data=1)) == [(0, 2), (2, 8)]


def test_measured_speeds_take_the_place_of_planned_ones():
    two = Resources.local(2)
    records = [RankRecord(0, 0, 3.0), RankRecord(1, 0, 1.0)]
    for speeds in (plan_rebalance_weights(records), {"cpu:0": 1.0, "cpu:1": 3.0}, [1.0, 3.0]):
        assert ranges(balance_plan(mixture(8), two, n_data=1, throughputs=speeds)) == [(0, 2), (2, 8)]
    catalog = CalibrationCatalog()
    fast = Resources((DeviceSpec("cpu:0"), DeviceSpec("cpu:1", throughput=3.0)))
    catalog.add(CalibrationRecord("MixtureDistribution", "estep", fast, 10, 3))
    assert ranges(balance_plan(mixture(8), two, n_data=1, catalog=catalog)) == [(0, 2), (2, 8)]
    catalog.add(CalibrationRecord("MixtureDistribution", "estep", two, 10, 3, timestamp=9.0, host="another/machine"))
    assert ranges(balance_plan(mixture(8), two, n_data=1, catalog=catalog)) == [(0, 2), (2, 8)]
    three = Resources.local(3)  # a record that lacks a device says nothing about it
    assert ranges(balance_plan(mixture(9), three, n_data=1, catalog=catalog)) == [(0, 3), (3, 6), (6, 9)]


@pytest.mark.parametrize("speeds", [[1.0], {"cpu:9": 1.0}, {"cpu:0": 1.0}, {0: 1.0, 5: 2.0}, [1.0, 0.0]])
def test_speeds_of_no_device_are_refused(speeds):
    with pytest.raises(ValueError, match="throughput"):
        balance_plan(mixture(8), Resources.local(2), n_data=1, throughputs=speeds)


@pytest.mark.parametrize("rows", [0, -1, True, 2.5, "3", None])
def test_a_number_of_rows_is_an_exact_positive_integer(rows):
    with pytest.raises(ValueError, match="n_data must be an exact positive integer"):
        balance_plan(GAUSSIAN, Resources.local(2), n_data=rows)


def test_an_estimator_is_wrapped_where_the_model_is_divided():
    model = mixture(8)
    same, plan = auto_balanced_estimator(model.estimator(), model, Resources.local(4), n_data=1000)
    assert (type(same).__name__, plan.is_model_parallel) == ("MixtureEstimator", False)
    wrapped, plan = auto_balanced_estimator(model.estimator(), model, Resources.local(4), n_data=1)
    assert (type(wrapped).__name__, wrapped.num_workers) == ("ModelParallelEstimator", plan.model_parallel)
    assert auto_balanced_estimator(model.estimator(), model, n_data=10)[1].workers_total >= 1
