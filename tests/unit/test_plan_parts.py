"""Corners of planning and observing: what a machine does not tell, what a model does not say, what is not finite."""

import builtins
import gc
import os
import sys
from decimal import Decimal
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from mixle.stats import CompositeDistribution, GaussianDistribution, MixtureDistribution
from mixle.stats.decomposition import Decomposition
from mixle.utils.parallel.observing import rounds as rounds_module
from mixle.utils.parallel.observing import units
from mixle.utils.parallel.observing.charts import Line, lines
from mixle.utils.parallel.observing.grid import number
from mixle.utils.parallel.observing.records import RankRecord, merged
from mixle.utils.parallel.observing.rounds import RoundLog
from mixle.utils.parallel.planner import plan
from mixle.utils.parallel.planning import catalog, costs, devices, forecast, json_text, limits, partition, timing
from mixle.utils.parallel.planning.calibrate import calibrate_resources
from mixle.utils.parallel.planning.discover import torch_devices, torchrun_devices

GAUSSIAN = GaussianDistribution(0.0, 1.0)

# Observing


def test_a_gap_in_a_line_lifts_the_pen():
    drawn = lines([Line("x", np.array([0.0, np.nan, 1.0, 1.0]), "red")], "1", "0", "a", "b")
    assert 'd="M0.0 97.0M666.7 3.0L1000.0 3.0"' in drawn


@pytest.mark.parametrize("value", [10**400, Decimal("sNaN"), np.array([1.0, 2.0])])
def test_what_is_no_number_is_nan(value):
    assert np.isnan(number(value))


def test_numbers_beside_the_record_are_added_and_of_anything_else_the_later_one_stands():
    def record(**extra):
        return RankRecord(rank=0, round=0, e_step_seconds=1.0, extra=extra)

    name = "phases"
    (one,) = merged([record(**{name: 1}), record(**{name: 2})])
    assert (one.extra[name], one.e_step_seconds) == (3, 2.0)
    (other,) = merged([record(**{name: 1}), record(**{name: "much"})])
    assert other.extra[name] == "much"
    (nested,) = merged([record(**{name: {"a": 1, "c": 5}}), record(**{name: {"a": 2, "b": 3}})])
    assert nested.extra[name] == {"a": 3, "b": 3, "c": 5}


def test_a_log_without_a_round_notes_nothing():
    log = RoundLog(None, None)
    log.folded()
    log.estimated(1.0)
    log.finish()
    assert log._rounds == []


def test_a_group_that_stops_counting_is_not_told_as_throttled(monkeypatch):
    told = [2.0, 3.5, None, 4.0]
    monkeypatch.setattr(rounds_module, "_throttled", lambda: told.pop(0))
    log = RoundLog(None, None)
    throttled = []
    for _ in range(3):
        list(log.watch(lambda task: iter(()), None))
        log.folded()
        log.finish()
        throttled.append(log._rounds[-1].throttled)
    assert (throttled[0], throttled[2]) == (1.5, 0.5)
    assert not throttled[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.inf, "–"), (np.nan, "–"), (7300.0, "2 h 1 min"), (75.0, "1 min 15 s"), (2.5e-6, "2.5 µs"), (4e-9, "4e-09 s")],
)
def test_durations(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_counts_that_are_not_finite_have_no_digits(value):
    assert units.count(value) == units.size(value) == "–"


# Calibration and its catalog


def test_an_estimator_is_made_of_the_model_where_none_is_given():
    resources = calibrate_resources([0.5, 1.5], GAUSSIAN, workload="estep", sample_size=2, repeats=1)
    assert resources.devices[0].throughput > 0.0


def test_a_catalog_that_cannot_be_written_says_what_to_pass(monkeypatch, tmp_path):
    def refuse(self, path):
        raise PermissionError("read-only")

    monkeypatch.setattr(catalog.CalibrationCatalog, "save", refuse)
    record = catalog.CalibrationRecord("M", "estep", devices.Resources.single_cpu(), 1, 1)
    kept = catalog.CalibrationCatalog()
    with pytest.raises(PermissionError) as caught:
        catalog.keep(record, kept, tmp_path / "c.json")
    assert caught.value.__notes__ == [
        f"the measurement was not kept: pass catalog_path= of a file that can be written, not {tmp_path / 'c.json'}"
    ]
    assert len(kept.records) == 1


def without(monkeypatch, *names):
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        if name in names:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)


def test_where_the_system_has_no_locks_nothing_is_held(monkeypatch, tmp_path):
    without(monkeypatch, "fcntl")
    with catalog.locked(tmp_path / "c.json"):
        assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_list_of_processors_has_a_kind(monkeypatch):
    class Nowhere(type(catalog.Path())):
        def open(self, *args, **kwargs):
            raise FileNotFoundError(self)

    monkeypatch.setattr(catalog, "Path", Nowhere)
    monkeypatch.setattr("platform.processor", lambda: "mill")
    assert catalog.host_kind().endswith("/mill")


def test_text_that_cannot_be_put_in_place_leaves_no_file_behind(monkeypatch, tmp_path):
    json_text.write_text(tmp_path / "sub" / "a.json", "one")
    assert (tmp_path / "sub" / "a.json").read_text() == "one"
    (tmp_path / "b.json").mkdir()
    with pytest.raises(OSError, match=r"b\.json"):
        json_text.write_text(tmp_path / "b.json", "two")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.json", "sub"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDWR), "rb", buffering=0) as reader:  # both ends: opening it does not wait
        json_text.write_text(pipe, "one")
        assert reader.read(3) == b"one"
    assert pipe.is_fifo()


def test_a_throughput_is_no_truth_value():
    with pytest.raises(TypeError, match=r"^throughput must be a number, not True$"):
        devices.DeviceSpec("a", throughput=True)
    told = devices.DeviceSpec("a", throughput=np.float32(2.5)).throughput
    assert (type(told), told) == (float, 2.5)


# What a model costs


class Holding:
    """A model by hand: laws in a mapping and a list, a property that cannot be asked."""

    def __init__(self, **parts):
        self.__dict__.update(parts)

    @property
    def broken(self):
        raise RuntimeError("not now")

    def seq_log_density(self, x):
        raise NotImplementedError

    def decomposition(self):
        return Decomposition.mixture(2) if hasattr(Decomposition, "mixture") else None


def test_parts_lie_in_mappings_lists_and_attributes_and_count_once():
    other = GaussianDistribution(1.0, 1.0)
    model = Holding(a={"x": GAUSSIAN, "y": other}, b=[GAUSSIAN, 3.0], c=other, _hidden=GaussianDistribution(2.0, 1.0))
    assert costs.cost_children(model) == (GAUSSIAN, other)
    assert costs.cost_children(3.0) == ()
    alone = costs.compute_cost(GAUSSIAN)
    work, size = costs.compute_cost(model)
    assert work == 1.0 + 2 * alone[0]
    assert size >= 2 * alone[1]
    twice = Holding(a=GAUSSIAN, b=Holding(a=GAUSSIAN))
    assert costs.compute_cost(twice)[0] == 2.0 + alone[0]
    assert costs.subtree_work(twice) == 2.0 + alone[0]


def test_the_parts_along_an_axis_are_as_many_as_it_has():
    mixture = MixtureDistribution([GAUSSIAN] * 3, [0.5, 0.25, 0.25])
    dc = costs.decomposition_of(mixture)
    assert costs.shard_children(mixture) == costs.shard_children(mixture, dc) == (GAUSSIAN,) * 3
    assert costs.shard_children(Holding(w=(1.0, 2.0, 3.0), _c=[GAUSSIAN] * 3, c=[GAUSSIAN] * 2), dc) == ()
    named = Holding(w=[1.0, 2.0, 3.0], c=dict.fromkeys("abc", GAUSSIAN))
    assert costs.shard_children(named, dc) == (GAUSSIAN,) * 3
    assert costs.shard_children(CompositeDistribution((GAUSSIAN, GAUSSIAN)), Decomposition.atomic()) == ()
    silent = type("Silent", (), {"decomposition": lambda self: "two"})()
    assert costs.decomposition_of(silent) == Decomposition.atomic()


# Where work could go


def fake_torch(gpus=0, mps=False, broken=False):
    torch = ModuleType("torch")

    def available():
        if broken:
            raise RuntimeError("driver")
        return gpus > 0

    torch.cuda = SimpleNamespace(
        is_available=available,
        device_count=lambda: gpus,
        get_device_properties=lambda i: SimpleNamespace(total_memory=1000 * (i + 1)),
    )
    torch.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps))
    return torch


@pytest.mark.parametrize(
    ("torch", "found"),
    [
        (fake_torch(), []),
        (fake_torch(2), [("cuda:0", "cuda", 1000, 10.0), ("cuda:1", "cuda", 2000, 10.0)]),
        (fake_torch(mps=True), [("mps:0", "mps", None, 3.0)]),
        (fake_torch(1, mps=True), [("cuda:0", "cuda", 1000, 10.0), ("mps:0", "mps", None, 3.0)]),
        (fake_torch(2, broken=True), []),
    ],
)
def test_accelerators_are_those_that_torch_reports(monkeypatch, torch, found):
    monkeypatch.setitem(sys.modules, "torch", torch)
    told = torch_devices("float32")
    assert [(one.name, one.kind, one.memory_bytes, one.throughput) for one in told] == found
    assert all((one.engine, one.precision) == ("torch", "float32") for one in told)


def test_without_torch_there_are_no_accelerators(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert torch_devices(None) == ()


def test_a_torchrun_world_has_a_device_per_rank(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    told = torchrun_devices(5, None)
    assert [(one.name, one.kind, one.engine) for one in told] == [(f"torchrun:{i}", "cpu", "numpy") for i in range(3)]
    assert [(one.node_id, one.local_rank, one.global_rank) for one in told] == [("0", 0, 0), ("0", 1, 1), ("1", 0, 2)]
    monkeypatch.setitem(sys.modules, "torch", fake_torch(2))
    first = torchrun_devices(5, None)[0]
    assert (first.name, first.kind, first.engine) == ("cuda:0", "cuda", "torch")


# Limits


@pytest.mark.parametrize(
    ("text", "count"), [("0-3,8", 5.0), ("2", 1.0), ("", None), ("a-3", None), ("0-x", None), ("5-4", None)]
)
def test_lists_of_processors(text, count):
    assert list(limits._set("affinity", text)) == ([] if count is None else [("cpus", "affinity", count)])


@pytest.mark.parametrize(
    ("environ", "cpus", "memory"),
    [
        ({}, {}, {}),
        ({"SLURM_JOB_ID": "1"}, {}, {}),
        ({"SLURM_JOB_ID": "1", "SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "8"}, {"Slurm": 4.0}, {}),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}, {"Slurm": 8.0}, {}),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "3"}, {}, {"Slurm": 3.0 * 2**20}),
        (
            {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "3", "SLURM_CPUS_ON_NODE": "2"},
            {"Slurm": 2.0},
            {"Slurm": 6.0 * 2**20},
        ),
        (
            {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "3", "SLURM_CPUS_PER_TASK": "4"},
            {"Slurm": 4.0},
            {"Slurm": 12.0 * 2**20},
        ),
        ({"SLURM_CPUS_PER_TASK": "4"}, {}, {}),
    ],
)
def test_what_slurm_gave(environ, cpus, memory):
    found = {}, {}
    limits._slurm(environ, *found)
    assert found == (cpus, memory)


def test_what_kubernetes_gave_is_the_least_that_it_says():
    found = {}, {}
    limits._kubernetes({"CPU_LIMIT": "2"}, *found)
    assert found == ({}, {})
    limits._kubernetes({"KUBERNETES_SERVICE_HOST": "x", "CPU_LIMIT": "many"}, *found)
    assert found == ({}, {})
    environ = {"KUBERNETES_SERVICE_HOST": "x", "CPU_LIMIT": "1500m", "MY_CPU_LIMIT": "2", "MEM_LIMIT": "1Gi"}
    limits._kubernetes(environ, *found)
    assert found == ({"Kubernetes": 1.5}, {"Kubernetes": 2.0**30})


def test_a_system_without_limits_of_processes_has_none(monkeypatch):
    without(monkeypatch, "resource")
    assert limits._rlimits() == {}


def test_memory_is_told_by_the_system_where_proc_does_not(monkeypatch, tmp_path):
    pages = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", lambda name: pages[name])
    assert limits._physical(tmp_path) == 409_600

    def refuse(name):
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", refuse)
    assert limits._physical(tmp_path) is None
    monkeypatch.setattr(limits, "sys", SimpleNamespace(platform="win32"))
    assert limits._physical(tmp_path) is None  # no Windows behind the name

    def fill(status):
        status._obj.bytes0 = 12_345
        return 1

    import ctypes

    kernel = SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=fill))
    monkeypatch.setattr(ctypes, "windll", kernel, raising=False)
    assert limits._physical(tmp_path) == 12_345


# Timing, partitions, forecasts


def test_rounds_are_measured_and_predicted_only_for_what_is_known():
    with pytest.raises(ValueError, match=r"^rounds are measured for local, .* not 'spark'$"):
        timing.measure_overhead("spark")
    with pytest.raises(ValueError, match=r"^rounds are predicted for local, .* not 'spark'$"):
        timing.measure_costs([1.0], GAUSSIAN, backends=("local", "spark"))


@pytest.mark.parametrize("backend", ["local", "threads"])
def test_what_rounds_take_here_is_not_negative(backend):
    told = timing.measure_overhead(backend, repeats=1)
    assert told.shard >= 0.0
    assert told[1] >= 0.0


def test_with_one_processor_threads_gain_nothing(monkeypatch):
    monkeypatch.setattr(timing, "usable_cpus", lambda: 1)
    assert timing.measure_pace([1.0, 2.0, 3.0], GAUSSIAN, repeats=1).held == 1.0


def test_units_are_taken_back_from_the_slowest_and_never_below_the_least():
    counts = [5, 5, 2]
    partition._give_back(counts, [1.0, 2.0, 1.0], 9, 2)
    assert counts == [2, 5, 2]
    partition._give_back(counts, [1.0, 2.0, 1.0], 6, 2)
    assert counts == [2, 2, 2]
    partition._give_back(counts, [1.0, 2.0, 1.0], 6, 2)
    assert counts == [2, 2, 2]


def test_a_start_that_rounding_puts_too_early_is_moved_on():
    rng = np.random.RandomState(0)
    late = 0
    for _ in range(300):
        works = rng.lognormal(0.0, 3.0, 6)
        line = partition._Line([0.0, *np.cumsum(works).tolist()], [1.0])
        speed = float(rng.lognormal())
        for start in range(6):
            bound = line.time(start, 6, speed)
            for limit in (bound, np.nextafter(bound, 0.0)):
                found = line._back(6, speed, limit)
                assert line.time(found, 6, speed) <= limit
                assert found == 0 or line.time(found - 1, 6, speed) > limit
                late += found > start
    assert late


def test_what_was_frozen_before_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with forecast._settled():
            assert gc.get_freeze_count() == frozen
        assert gc.get_freeze_count() == frozen
        gc.unfreeze()
        with forecast._settled():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as the session has it


def test_rows_are_measured_by_the_encoder_of_model_or_estimator():
    rows, model = [0.5, 1.5, 2.5], GaussianDistribution(0.0, 1.0)
    ways = {"model": model}, {"estimator": model.estimator()}, {"encoder": model.dist_to_encoder()}
    one, *others = ([shard.encoded_bytes for shard in plan(rows, **way).shards] for way in ways)
    assert others == [one, one]
    assert sum(one) > 0
