"""Seconds of a round and the configuration chosen by them; the campaign is ``benchmarks/planner.py sweep``."""

import json
from itertools import product

import numpy as np
import pytest

from mixle import stats
from mixle.errors import BackendError
from mixle.utils.parallel.planner import (
    CalibrationCatalog,
    Configuration,
    Costs,
    DeviceSpec,
    Footprint,
    Overhead,
    Pace,
    Resources,
    configure,
    encoded_data,
    forecast,
    known_costs,
    measure_costs,
)
from mixle.utils.parallel.planning import configure as choosing
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.planning.forecast import Baseline, Phase
from mixle.utils.parallel.planning.overheads import clocks_of, measure_overhead, seconds_of_round
from mixle.utils.parallel.planning.pace import BACKENDS
from mixle.utils.parallel.policies.predict import Predict
from mixle.utils.parallel.policies.rebalance import Rebalance

ROWS = np.random.RandomState(0).normal(size=6000)
ESTIMATOR = stats.MixtureEstimator([stats.GaussianEstimator()] * 2)
PACE = Pace(1e-6, 2e-4, 3e-4, 0.25, 1e-5, 4e-4, 5e-5, 6e-5, 7e-5, 8e-5)
COSTS = Costs(
    PACE,
    {
        "local": Overhead(1e-5, 0.0, 2e-5),
        "threads": Overhead(1e-4, 5e-5, 2e-5),
        "mp": Overhead(6e-4, 1e-4, 9e-5, 5e-4, 4e-5),
    },
)
FOUR = Resources.local(4)


def model():
    with encoded_data(ROWS, ESTIMATOR) as handle:
        return handle.pysp_seq_initialize(ESTIMATOR, 1, 0.5)


def test_a_round_is_the_driver_and_the_busiest_worker():
    told = COSTS.round(100_000, backend="mp", workers=4, num_shards=8, sub_chunks=2)
    task = 1e-6 * 12_500 + 2e-4 * 2 + 3e-4
    driver = 6e-4 + 4e-4 + 8 * (9e-5 + 1e-5 + 8e-5) + 4e-4 + 5e-5
    assert told.task_seconds == pytest.approx(task)
    assert told.seconds == pytest.approx(driver + 5e-4 + 6e-5 + 2 * (task + 4e-5 + 7e-5))
    assert told.cpu_seconds == pytest.approx(driver + 4 * (5e-4 + 6e-5) + 8 * (task + 4e-5 + 7e-5))


def test_threads_share_what_does_not_hold_the_interpreter():
    one, four = (COSTS.round(10**6, backend="threads", workers=n, num_shards=4) for n in (1, 4))
    assert one.cpu_seconds == pytest.approx(four.cpu_seconds - 3 * 5e-5)
    assert one.seconds - four.seconds == pytest.approx(0.75 * 0.75 * (1.0 + 4 * 5e-4) - 3 * 5e-5)
    alone = COSTS.round(10**6, backend="local", num_shards=4)
    assert alone.seconds == alone.cpu_seconds


@pytest.mark.parametrize("held", [0.0, 0.5, 1.0])
def test_two_threads_take_what_was_measured_of_two_beside_one(held, monkeypatch):
    """Where handing over the interpreter's lock costs what the second thread saves, none is planned."""
    bare = Costs(Pace(1e-6, 0.0, 1e-3, held, *[0.0] * 6), {"local": Overhead(), "threads": Overhead()})
    alone = bare.round(10**4, backend="local", num_shards=2).seconds
    crowded = bare.round(10**4, backend="threads", workers=2, num_shards=2).seconds
    assert crowded == pytest.approx(alone * (1.0 + held) / 2.0)
    monkeypatch.setattr(choosing, "usable_cpus", lambda: 2)
    chosen = configure(10**4, bare, Resources.local(2), num_shards=2)
    assert chosen.backend == ("threads" if held < 1.0 else "local")


def test_costs_read_back_and_so_do_those_of_an_earlier_version():
    told = json.loads(json.dumps(COSTS.to_dict()))
    assert Costs.from_dict(told) == COSTS
    told["pace"]["held_fixed"] = 2.0
    assert Costs.from_dict(told) == COSTS


def test_work_on_rows_may_be_slower_where_workers_share_the_machine():
    slow = Costs(PACE, {"mp": COSTS.overheads["mp"]._replace(slower=1.5)})
    one, other = (of.round(10**6, workers=4) for of in (COSTS, slow))
    assert other.seconds - one.seconds == pytest.approx(0.5 * 1e-6 * 250_000)
    assert other.cpu_seconds - one.cpu_seconds == pytest.approx(0.5)
    assert other.task_seconds == one.task_seconds
    assert COSTS.round(10**6, workers=1) == slow.round(10**6, workers=1)  # nobody beside it


def test_no_more_workers_than_processors_unless_asked_for_and_never_more_threads(monkeypatch):
    assert configure(10**8, COSTS).workers <= usable_cpus()
    free = Costs(PACE._replace(held=0.0), {name: COSTS.overheads[name] for name in ("local", "threads")})
    for cores, wanted in ((1, ("local", 1)), (3, ("threads", 3)), (64, ("threads", 4))):
        monkeypatch.setattr(choosing, "usable_cpus", lambda cores=cores: cores)
        found = configure(10**8, free, FOUR)
        assert (found.backend, found.workers) == wanted
        assert configure(10**8, COSTS, FOUR).workers == 4  # processes may be elsewhere, and were asked for


def test_a_forecast_with_costs_tells_both_bytes_and_seconds():
    footprint = Footprint(8.0, 0.0, 0.0, 1.0, (Phase(8.0, 16.0, 1000.0),))
    told = forecast(footprint, 10**6, 4, costs=COSTS)
    assert told.round_time == COSTS.round(10**6, workers=4)
    assert forecast(footprint, 10**6, 4).round_time is None


@pytest.mark.parametrize("objective", ["time", "cpu"])
@pytest.mark.parametrize("rows", [10, 3000, 30_000, 10**6])
def test_the_choice_is_the_best_of_all_by_what_is_predicted(rows, objective, monkeypatch):
    monkeypatch.setattr(choosing, "usable_cpus", lambda: 4)
    chosen = configure(rows, COSTS, FOUR, objective=objective)
    everything = [
        COSTS.round(rows, backend=backend, workers=workers, num_shards=share * workers, sub_chunks=pieces)
        for backend, workers, share, pieces in product(BACKENDS, (1, 2, 3, 4), (1, 2, 3, 4), (1, 4))
    ]
    place = 0 if objective == "time" else 1
    assert chosen.round_time[place] <= 1.02 * min(told[place] for told in everything)
    assert chosen.workers <= 4


def test_few_rows_stay_here_and_many_go_to_all_workers():
    assert (configure(100, COSTS, FOUR).backend, configure(10**7, COSTS, FOUR).workers) == ("local", 4)
    assert configure(10**7, COSTS, FOUR).backend == "mp"
    assert configure(10**7, COSTS, Resources.single_cpu()).backend == "local"
    assert configure(100_000, COSTS, FOUR, num_shards=7).num_shards == 7


def test_memory_rules_out_what_does_not_fit():
    footprint = Footprint(8.0, 0.0, 100.0, 1.0, (Phase(8.0, 900.0, 1000.0),))
    roomy = configure(10**6, COSTS, FOUR, footprint=footprint)
    assert (roomy.workers, roomy.sub_chunks) == (4, 1)
    small = Resources(tuple(DeviceSpec(f"cpu:{i}", memory_bytes=120_000_000) for i in range(4)))
    tight = configure(10**6, COSTS, small, footprint=footprint)
    assert tight.memory_bytes <= 120_000_000 < roomy.memory_bytes
    with pytest.raises(ValueError, match="fit on none of 4 devices of 1000 bytes"):
        configure(10**6, COSTS, Resources.local(4, memory_bytes=4000), footprint=footprint)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: configure(10, COSTS, objective="speed"), "objective is 'time' or 'cpu'"),
        (lambda: configure(0, COSTS), "total_rows must be at least 1"),
        (lambda: configure(10, COSTS, num_shards=0), "num_shards must be at least 1"),
        (lambda: COSTS.round(10, backend="dask"), "local, threads, mp, not 'dask'"),
        (lambda: COSTS.round(10, workers=0), "workers must be at least 1"),
        (lambda: measure_costs(ROWS, model(), backends=["ray"]), "not 'ray'"),
        (lambda: measure_overhead("ray"), "not 'ray'"),
        (lambda: Predict(COSTS, 0), "sub_chunks must be an integer of at least 1"),
    ],
)
def test_what_cannot_be_predicted_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_model_that_fails_is_named():
    class Broken(stats.GaussianDistribution):
        def seq_log_density(self, x):
            raise ZeroDivisionError("broken on purpose")

    with pytest.raises(ValueError, match="the E-step failed on the probe: ZeroDivisionError: broken on purpose"):
        measure_costs(ROWS, Broken(0.0, 1.0), stats.GaussianEstimator(), backends=["local"])


def test_measured_costs_are_near_the_rounds_they_tell_of():
    """The accuracy is that of the campaign; this says that nothing is off by an order."""
    found = measure_costs(ROWS, model(), ESTIMATOR, backends=["local", "mp"])
    for backend, options in (("local", {}), ("mp", {"backend": "mp", "num_workers": 2})):
        with encoded_data(ROWS, ESTIMATOR, num_chunks=2, **options) as handle:
            clocks = clocks_of(handle)
            rounds = [seconds_of_round(handle, ESTIMATOR, model(), clocks) for _ in range(5)]
        told = found.round(len(ROWS), backend=backend, workers=2, num_shards=2)
        if backend == "local" or clocks:  # processes can be clocked
            measured = min(driver + worker for driver, worker, _ in rounds)
            assert measured / 8.0 < told.seconds < 8.0 * max(driver + worker for driver, worker, _ in rounds)


def test_a_configuration_is_what_a_handle_takes():
    options = configure(len(ROWS), COSTS, FOUR, num_shards=3).options()
    with encoded_data(ROWS, ESTIMATOR, num_chunks=3) as handle:
        wanted = handle.pysp_seq_estimate(ESTIMATOR, model()).digest()
    for backend in BACKENDS:
        options = Configuration(backend, 2, 3, 1, COSTS.round(10)).options()
        with encoded_data(ROWS, ESTIMATOR, **options) as handle:
            assert handle.num_shards == 3
            assert handle.pysp_seq_estimate(ESTIMATOR, model()).digest() == wanted


def test_prediction_stands_beside_measurement_and_the_catalog_learns(tmp_path):
    catalog, path, start = CalibrationCatalog(), tmp_path / "catalog.json", model()
    policies = [Predict(COSTS, catalog=catalog, catalog_path=path)]
    with encoded_data(ROWS, ESTIMATOR, num_chunks=3, policies=policies) as handle:
        for _ in range(3):
            handle.pysp_seq_estimate(ESTIMATOR, start)
        seen = [record.extra["cpu_seconds"] for record in handle.records]
        assert [record.extra["predicted_seconds"] for record in handle.records] == pytest.approx([0.0075] * 3)
        handle.close()
    learned = known_costs(catalog, "MixtureDistribution")
    assert learned == known_costs(CalibrationCatalog.load(path))
    assert 3 * learned.pace.task(2000) == pytest.approx(sorted(seen)[1])
    assert learned.overheads == COSTS.overheads
    assert known_costs(catalog, "GaussianDistribution") is None
    assert len(catalog.records) == 1  # `close` twice teaches once


def test_a_catalog_spares_the_pools():
    catalog = CalibrationCatalog()
    catalog.add(COSTS.record("Another", 10))
    found = measure_costs(ROWS, model(), ESTIMATOR, catalog=catalog)
    assert found.overheads == COSTS.overheads
    assert found.pace != COSTS.pace
    assert known_costs(catalog, "MixtureDistribution") == found
    assert known_costs(CalibrationCatalog.from_json(catalog.to_json()), "MixtureDistribution") == found


def test_a_file_spares_the_pools_too_and_gets_what_was_measured(tmp_path):
    path = tmp_path / "catalog.json"
    first = measure_costs(ROWS, model(), ESTIMATOR, backends=["local"], catalog_path=path)
    assert set(first.overheads) == {"local"}
    again = measure_costs(ROWS, model(), ESTIMATOR, backends=["local"], catalog_path=path)
    assert again.overheads == first.overheads
    assert again.pace != first.pace
    assert len(CalibrationCatalog.load(path).records) == 2


def test_another_kind_of_host_tells_nothing():
    record = COSTS.record("Model", 10)
    foreign = type(record)(**{**vars(record), "host": "vax/780"})
    assert known_costs(CalibrationCatalog((foreign,))) is None


def test_a_catalog_without_costs_reads_as_before():
    record = COSTS.record("Model", 10)
    told = record.to_dict()
    assert json.loads(json.dumps(told)) == told
    del told["costs"]
    assert type(record).from_dict(told).costs is None


def test_a_rebalance_that_has_seen_the_workers_knows_better():
    policies = [Predict(COSTS), Rebalance()]
    with encoded_data(ROWS, ESTIMATOR, backend="mp", num_workers=2, num_chunks=4, policies=policies) as handle:
        start = model()
        for _ in range(2):
            handle.pysp_seq_estimate(ESTIMATOR, start)
        first, second = (sum(r.extra["predicted_seconds"] for r in handle.records if r.round == n) for n in (0, 1))
    assert first == pytest.approx(4 * COSTS.pace.task(1500))
    assert second != pytest.approx(first)


def test_one_prediction_per_pool():
    with pytest.raises(BackendError, match="Predict is given 2 times"):
        encoded_data(ROWS, ESTIMATOR, policies=[Predict(COSTS), Predict(COSTS)])


def test_a_worker_without_rows_counts_as_one_in_the_forecast():
    bare = Footprint(8.0, 0.0, 0.0, 0.0, (Phase(0.0, 0.0, 0.0),))
    assert forecast(bare, 1, 1, baseline=Baseline(5, 0, 5, 0), costs=COSTS, backend="local").round_time.seconds > 0.0
