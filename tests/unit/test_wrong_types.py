"""Arguments of a wrong type at the doors: a TypeError that names the argument and what to pass, before any work."""

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import bic, bootstrap, optimize, score
from mixle.utils.parallel import em_observability as seen
from mixle.utils.parallel import planner
from mixle.utils.parallel.model_decomposition import decompose_model
from mixle.utils.parallel.planner import DeviceSpec, Resources, encoded_data, plan

ROWS, NORMAL = [1.0, 2.0, 4.0], st.GaussianDistribution(0.0, 1.0)
GAUSS, PAIR = st.GaussianEstimator(), st.MixtureDistribution([NORMAL, NORMAL])


class Forgetful(st.GaussianEstimator):
    """An estimator that forgets to return its model."""

    def estimate(self, nobs, suff_stat):
        """Return nothing."""
        super().estimate(nobs, suff_stat)


WRONG = [
    (lambda: encoded_data(list, GAUSS), "the class list is not data: pass a list of rows"),
    (lambda: encoded_data(list, GAUSS, backend="mp"), "the class list is not data: pass a list of rows"),
    (lambda: encoded_data(np.array(3.0), GAUSS, backend="mp"), r"a 0-d array is one value, not rows: pass data\.resh"),
    (lambda: encoded_data(ROWS, st.GaussianEstimator), r"estimator is the class GaussianEstimator; pass an instance"),
    (lambda: encoded_data(ROWS, model="a"), r"model is 'a', which has no dist_to_encoder\(\); pass e\.g\. a fit"),
    (
        lambda: encoded_data(ROWS, model=st.GaussianDistribution),
        "model is the class GaussianDistribution; pass an",
    ),
    (lambda: encoded_data(ROWS, model="a", backend="mp"), r"model is 'a', which has no dist_to_encoder\(\)"),
    (lambda: encoded_data(ROWS, encoder="a"), r"encoder is 'a', which has no seq_encode\(\); pass e\.g\. model\.dist"),
    (
        lambda: encoded_data(ROWS, GAUSS, backend="mp", num_workers="a"),
        "num_workers must be a number of processes",
    ),
    (
        lambda: encoded_data(ROWS, GAUSS, placement="a"),
        r"placement is 'a', no Placement; pass plan\(data",
    ),
    (lambda: encoded_data(ROWS, GAUSS, resources="a"), r"resources is 'a', no Resources; pass for example Resources\."),
    (
        lambda: encoded_data(ROWS, GAUSS).pysp_seq_log_density_sum(st.GaussianDistribution),
        r"the model is the class GaussianDistribution; pass an instance: GaussianDistribution\(\.\.\.\)",
    ),
    (lambda: optimize(ROWS, GAUSS, out="a"), r"out is 'a', which has no write\(\); pass sys\.stdout, an open file, or"),
    (
        lambda: optimize(ROWS, GAUSS, on_step="a"),
        "on_step is 'a', which cannot be called; pass a function of an EMStep",
    ),
    (lambda: optimize(ROWS, GAUSS, resources="a"), "resources is 'a', no Resources"),
    (lambda: optimize(ROWS, GAUSS, placement="a"), "placement is 'a', no Placement"),
    (lambda: optimize(ROWS, GAUSS, seed=np.array(3)), "seed must be a numpy.random.RandomState"),
    (lambda: optimize(ROWS, Forgetful(), max_its=2), "Forgetful.estimate returned None; it has to return the fitted"),
    (
        lambda: bootstrap(GAUSS, ROWS, statistic="a"),
        "statistic is 'a', which cannot be called; pass a function of a mo",
    ),
    (lambda: score(None, ROWS), "model is None, which has no dist_to_encoder"),
    (lambda: bic(st.GaussianDistribution, ROWS), "model is the class GaussianDistribution"),
    (lambda: plan(ROWS, estimator=GAUSS, resources=3), "resources is 3, no Resources"),
    (lambda: plan(ROWS, estimator=GAUSS, sub_chunks=None), "sub_chunks must be an integer, not None"),
    (lambda: plan(ROWS, estimator=GAUSS, safety_factor="a"), "safety_factor must be a number above 0, not 'a'"),
    (lambda: plan(3, estimator=GAUSS), "data is 3, which has no length; pass a list of rows, or total_rows="),
    (lambda: plan([1.0], GAUSS), "plan: model is GaussianEstimator.*, which has no dist_to_encoder"),
    (lambda: plan([1.0], estimator=[GAUSS]), "plan: estimator is .*, which has no accumulator_factory"),
    (lambda: plan([1.0], encoder=GAUSS), "plan: encoder is GaussianEstimator.*, which has no seq_encode"),
    (lambda: Resources(None), r"devices is a tuple of DeviceSpec, as \(DeviceSpec\('cpu:0'\),\); it holds None"),
    (lambda: Resources(("cpu:0",)), "devices is a tuple of DeviceSpec, .*; it holds 'cpu:0'"),
    (lambda: Resources(DeviceSpec), "devices is a tuple of DeviceSpec, .*; it holds <class"),
    (lambda: planner.calibrate_resources(ROWS, model=NORMAL, resources="a"), "resources is 'a', no Resources"),
    (lambda: planner.model_sharding_plan(PAIR, None), "resources is None, no Resources"),
    (lambda: decompose_model(PAIR, None), "resources is None, no Resources"),
    (lambda: seen.detect_stragglers(None), "records is None, no list of RankRecord; use handle.records"),
    (lambda: seen.records_from_events(None), r"events is None, no list of Event; pass telemetry\.events\(\)"),
    (lambda: seen.records_from_events(["a"]), r"events\[0\] is 'a', no Event; pass telemetry\.events\(\)"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_a_wrong_type_is_named_with_what_to_pass(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_what_is_too_large_to_be_planned():
    with pytest.raises(ValueError, match="more rows than can be counted; pass fewer"):
        plan(total_rows=10**30, estimator=GAUSS, encoded_row_bytes=8.0)
    with pytest.raises(ValueError, match="safety_factor must be positive"):
        plan(ROWS, estimator=GAUSS, safety_factor=float("nan"))


def test_a_series_of_polars_is_told_how_it_becomes_a_list():
    series = pytest.importorskip("polars").Series([1.0, 2.0])
    with pytest.raises(TypeError, match=r"pass data\.to_list\(\)") as caught:
        encoded_data(series, GAUSS)
    assert eval(str(caught.value).partition("pass ")[2], {"data": series}) == [1.0, 2.0]
