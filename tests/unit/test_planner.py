"""The planner's devices, catalogue, calibration and sharding, and what its facade promises."""

import json
import pickle
import subprocess
import sys
import types

import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel, numbers

from mixle.utils.parallel import planner
from mixle.utils.parallel.planner import (
    CalibrationCatalog,
    CalibrationRecord,
    DeviceSpec,
    ModelShard,
    Resources,
    calibrate_resources,
    model_sharding_plan,
)
from mixle.utils.parallel.planning import discover

ROWS = numbers(50)


def names(resources):
    return [device.name for device in resources.devices]


def test_every_public_name_carries_the_documented_module():
    for name in planner.__all__:
        assert getattr(planner, name).__module__ == "mixle.utils.parallel.planner"
    with pytest.raises(AttributeError, match=r"mixle.utils.parallel.planner.* has no attribute 'nothing'"):
        planner.nothing  # noqa: B018 - the access is the test


def test_a_device_travels_by_its_documented_name():
    device = DeviceSpec("a", memory_bytes=5, throughput=2)
    assert pickle.loads(pickle.dumps(device)) == device
    assert b"mixle.utils.parallel.planner" in pickle.dumps(device)


def test_handles_come_from_the_documented_module_in_a_fresh_process():
    code = (
        "from mixle.utils.parallel.planner import encoded_data\n"
        "class E:\n"
        "    def seq_encode(self, rows): return rows\n"
        "print(type(encoded_data([1.0], encoder=E())).__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "mixle.utils.parallel.planner"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": ""}, ValueError, "non-empty"),
        ({"name": "a", "throughput": 0.0}, ValueError, "finite and positive"),
        ({"name": "a", "throughput": float("inf")}, ValueError, "finite and positive"),
        ({"name": "a", "throughput": True}, TypeError, "throughput must be a number"),
        ({"name": "a", "memory_bytes": 0}, ValueError, "memory_bytes must be at least 1"),
        ({"name": "a", "memory_bytes": 1.5}, TypeError, "memory_bytes must be an integer"),
        ({"name": "a", "local_rank": -1}, ValueError, "local_rank must be at least 0"),
    ],
)
def test_wrong_devices_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        DeviceSpec(**arguments)


def test_a_device_round_trips_and_knows_what_it_is():
    device = DeviceSpec("a", "CUDA", 7, "torch", 2.0, "fp32", "n", 1, 3)
    assert device.is_gpu
    assert device.precision == "float32"
    assert list(device.to_dict()) == [
        "name", "kind", "memory_bytes", "engine", "throughput", "precision", "node_id", "local_rank", "global_rank",
    ]  # fmt: skip
    assert DeviceSpec.from_dict({**device.to_dict(), "later": 1}) == device
    assert not DeviceSpec("b").is_gpu


def test_resources_need_devices_with_names_of_their_own():
    for make in (lambda: Resources(()), lambda: Resources.from_dict({})):
        with pytest.raises(ValueError, match="at least one device"):
            make()
    with pytest.raises(ValueError, match="given more than once: a"):
        Resources.from_specs([DeviceSpec("a"), DeviceSpec("a")])


def test_local_resources_are_named_and_share_memory():
    assert names(Resources.single_cpu()) == ["cpu:0"]
    local = Resources.local(3, memory_bytes=100)
    assert names(local) == ["cpu:0", "cpu:1", "cpu:2"]
    assert {device.memory_bytes for device in local.devices} == {33}
    assert Resources.local(3, memory_bytes=1).devices[0].memory_bytes == 1
    assert len(Resources.local().devices) == discover.usable_cpus()
    assert names(Resources.local(0)) == names(Resources.local(-1)) == names(Resources.discover(False, 0)) == ["cpu:0"]
    assert names(Resources.discover(include_torch=False, cpu_workers=2)) == ["cpu:0", "cpu:1"]


def test_mpi_slots_come_from_the_communicator_or_the_launcher(monkeypatch):
    assert names(Resources.from_mpi(types.SimpleNamespace(Get_size=lambda: 2))) == ["mpi:0", "mpi:1"]
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    assert names(Resources.from_mpi()) == ["mpi:0"]
    monkeypatch.setenv("PMI_SIZE", "3")
    assert len(Resources.from_mpi().devices) == 3


def test_slots_of_an_engine_share_the_memory_in_equal_parts(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    for made, count in (
        (lambda memory: Resources.from_mpi(types.SimpleNamespace(Get_size=lambda: 3), memory), 3),
        (lambda memory: Resources.from_spark(types.SimpleNamespace(defaultParallelism=2), memory), 2),
        (Resources.from_torchrun, 4),
    ):
        assert [device.memory_bytes for device in made(100).devices] == [100 // count] * count
        assert [device.memory_bytes for device in made(1).devices] == [1] * count
        assert [device.memory_bytes for device in made(None).devices] == [None] * count
        with pytest.raises(ValueError, match="memory_bytes must be at least 1"):
            made(0)


def test_dask_and_spark_slots():
    workers = {
        "tcp://b": {"name": "w1", "nthreads": 4, "memory_limit": 100},
        "tcp://a": {"name": "w0", "nthreads": 0, "memory_limit": 0},
    }
    dask = Resources.from_dask(types.SimpleNamespace(scheduler_info=lambda: {"workers": workers}))
    assert [(d.name, d.throughput, d.memory_bytes) for d in dask.devices] == [
        ("dask:w0", 1.0, None),
        ("dask:w1", 4.0, 100),
    ]
    assert names(Resources.from_spark(types.SimpleNamespace(defaultParallelism=2))) == ["spark:0", "spark:1"]


def test_torchrun_slots(monkeypatch):
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert names(Resources.from_torchrun()) == ["torchrun:0"]
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    slots = Resources.from_torchrun().devices
    assert [(s.name, s.node_id, s.local_rank, s.global_rank) for s in slots][2:] == [
        ("torchrun:2", "1", 0, 2),
        ("torchrun:3", "1", 1, 3),
    ]


def test_the_first_of_the_fastest_wins():
    resources = Resources((DeviceSpec("a"), DeviceSpec("b", throughput=2.0), DeviceSpec("c", throughput=2.0)))
    assert resources.fastest().name == "b"


def test_resources_are_saved_whole(tmp_path):
    resources = Resources.local(2, memory_bytes=10)
    path = tmp_path / "deep" / "resources.json"
    resources.save(path, indent=1)
    assert Resources.load(path) == resources
    assert Resources.from_json(resources.to_json()) == resources
    assert [entry.name for entry in path.parent.iterdir()] == ["resources.json"]
    with pytest.raises(TypeError):
        resources.save(path, no_such_option=1)
    assert Resources.load(path) == resources


def model(k, size=None):
    return types.SimpleNamespace(num_components=k)


def speeds(*throughputs):
    return Resources(tuple(DeviceSpec(f"d{i}", throughput=t) for i, t in enumerate(throughputs)))


@pytest.mark.parametrize(
    ("k", "throughputs", "least", "ranges"),
    [
        (5, (1, 3), 1, [(0, 1), (1, 5)]),
        (5, (1, 1, 1), 1, [(0, 2), (2, 4), (4, 5)]),
        (5, (1, 1, 1), 2, [(0, 3), (3, 5)]),
        (5, (1, 1, 1), 5, [(0, 5)]),
        (2, (1, 1, 1), 1, [(0, 1), (1, 2)]),
        (6, (1, 100), 2, [(0, 2), (2, 6)]),
    ],
)
def test_components_are_shared_by_throughput(k, throughputs, least, ranges):
    shards = model_sharding_plan(model(k), speeds(*throughputs), min_components_per_shard=least)
    assert [(shard.component_start, shard.component_stop) for shard in shards] == ranges
    assert [shard.num_components for shard in shards] == [b - a for a, b in ranges]
    assert all(shard.num_components >= least for shard in shards)


def test_the_fastest_devices_are_used_when_there_are_too_many():
    shards = model_sharding_plan(model(2), speeds(1, 5, 3))
    assert [shard.device.name for shard in shards] == ["d1", "d2"]


def test_bytes_go_with_the_components():
    (shard,) = model_sharding_plan(model(2), speeds(1), PlainEstimator())
    assert shard == ModelShard(speeds(1).devices[0], 0, 2, 28, 96)
    assert shard.total_bytes == 124


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"axis": "states"}, "axis 'states' cannot be sharded"),
        ({"min_components_per_shard": 9}, "exceeds the 5 components"),
        ({"min_components_per_shard": 0}, "at least 1"),
        ({"model": PlainModel(0.0, 1.0)}, "PlainModel has no components"),
    ],
)
def test_what_cannot_be_sharded_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        model_sharding_plan(**{"model": model(5), "resources": speeds(1), **arguments})


def record(workload="score", timestamp=0.0, kind="Plain", precision=None, throughput=1.0):
    return CalibrationRecord(
        kind, workload, Resources.single_cpu(throughput=throughput), 10, 3, precision, timestamp=timestamp
    )


def test_a_catalogue_finds_the_newest_match():
    catalog = CalibrationCatalog()
    for entry in (record(timestamp=2.0), record("accumulate", 1.0, precision="fp32"), record(timestamp=3.0, kind="B")):
        assert catalog.add(entry) is entry
    assert catalog.latest() is catalog.records[2]
    assert catalog.latest("Plain") is catalog.records[0]
    for workload in ("accumulate", "estep", "EStep"):
        assert catalog.latest(workload=workload) is catalog.records[1]
    assert catalog.latest(precision="float32") is catalog.records[1]
    assert catalog.latest("nobody") is None
    assert catalog.resources_for("nobody") is None
    assert catalog.resources_for("B") == Resources.single_cpu()
    later = catalog.add(record(timestamp=3.0, kind="B"))
    assert catalog.latest() is later


def test_a_catalogue_is_json(tmp_path):
    catalog = CalibrationCatalog([record(throughput=4.0), record("em", 9.0)])
    path = tmp_path / "catalog.json"
    catalog.save(path)
    assert CalibrationCatalog.load(path) == CalibrationCatalog.from_json(catalog.to_json()) == catalog
    assert list(json.loads(path.read_text())) == ["records"]


@pytest.mark.parametrize(
    ("workload", "kind"), [("score", "score"), ("accumulate", "estep"), ("estep", "estep"), ("EM", "em")]
)
def test_calibration_measures_rows_per_second_and_records_it(tmp_path, workload, kind):
    catalog, path = CalibrationCatalog(), tmp_path / "catalog.json"
    estimator = None if workload == "score" else PlainEstimator()
    measured = calibrate_resources(
        ROWS,
        PlainModel(0.0, 1.0),
        Resources.local(2),
        estimator,
        sample_size=20,
        repeats=2,
        workload=workload,
        precision="double",
        catalog=catalog,
        catalog_path=path,
    )
    assert all(device.throughput > 20 for device in measured.devices)
    (entry,) = catalog.records
    assert (entry.model_type, entry.workload, entry.sample_size, entry.repeats) == ("PlainModel", kind, 20, 2)
    assert (entry.precision, entry.row_count, entry.model_bytes) == ("float64", 50, 48)
    assert entry.resources == measured
    assert [result["success"] for result in entry.device_results] == [True, True]
    calibrate_resources(ROWS, PlainModel(0.0, 1.0), encoder=PlainEncoder(), catalog_path=path)
    assert CalibrationCatalog.load(path).records[0] == entry
    assert len(CalibrationCatalog.load(path).records) == 2


def test_a_device_that_cannot_run_keeps_its_throughput():
    catalog = CalibrationCatalog()
    mixed = Resources((DeviceSpec("g", engine="torch", throughput=7.0), DeviceSpec("c", throughput=1.0)))
    measured = calibrate_resources(ROWS, PlainModel(0.0, 1.0), mixed, catalog=catalog)
    assert measured.devices[0].throughput == 7.0
    assert measured.devices[1].throughput != 1.0
    assert catalog.records[0].device_results[0]["error"] == "engine 'torch' cannot run here"

    class Broken(PlainModel):
        def seq_log_density(self, x):
            raise ZeroDivisionError("no")

    kept = calibrate_resources(ROWS, Broken(0.0, 1.0), Resources.single_cpu(throughput=5.0), catalog=catalog)
    assert kept.devices[0].throughput == 5.0
    assert catalog.records[1].device_results[0]["error"] == "ZeroDivisionError: no"


def test_calibration_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="workload 'sleep' is unknown"):
        calibrate_resources(ROWS, PlainModel(0.0, 1.0), workload="sleep")
    with pytest.raises(ValueError, match="requires non-empty data"):
        calibrate_resources([], PlainModel(0.0, 1.0))
