"""Every handle keeps records without being asked."""

import time

import numpy as np
import pytest

from mixle.errors import BackendError
from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.telemetry import Telemetry
from mixle.utils.parallel.em_observability import records_from_events
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.policies.observe import Observe
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData
from mixle.utils.parallel.transports.local import LocalTransport

ROWS = np.concatenate([np.random.default_rng(0).normal(0, 1, 4000), np.random.default_rng(1).normal(5, 2, 4000)])
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 2)
BACKENDS = [
    ("local", {}),
    ("local", {"num_shards": 4, "chunk_workers": 2}),
    ("mp", {"num_workers": 2, "num_shards": 4}),
]


@pytest.mark.parametrize(("backend", "controls"), BACKENDS)
def test_records_phases_and_report(backend, controls):
    with encoded_data(ROWS, ESTIMATOR, backend=backend, **controls) as data:
        optimize(None, ESTIMATOR, enc_data=data, max_its=5, delta=None, seed=1)
        model, walls = data.pysp_seq_initialize(ESTIMATOR, np.random.RandomState(0), 0.5), []
        before = max(record.round for record in data.records) + 1
        for _ in range(10):
            start = time.perf_counter()
            model = data.pysp_seq_estimate(ESTIMATOR, model)
            walls.append(time.perf_counter() - start)
        records = [record for record in data.records if record.round >= before]
        assert {record.rank for record in records} == set(range(controls.get("num_workers", 1)))
        assert all(sum(r.n_obs for r in records if r.round == before + t) == len(ROWS) for t in range(10))
        close = [
            abs(walls[r.round - before] - sum(r.extra["phases"].values())) <= 0.01 * walls[r.round - before] + 2e-4
            for r in records
        ]
        assert np.mean(close) >= 0.8  # a busy machine may stop the driver between two clocks
        assert all(record.bytes_processed > 0 for record in records)
        if backend == "mp":
            told = [record.extra["phases"] for record in records]
            assert all(phases["decode"] > 0.0 and phases["encode"] > 0.0 for phases in told)
        report = data.report()
        assert report.n_rounds == before + 10
        assert "Log-density" in report._repr_html_()


def test_records_go_to_telemetry_under_their_run(tmp_path):
    with Telemetry(tmp_path / "run.jsonl") as telemetry:
        for run in ("a", "b"):
            with encoded_data(ROWS, ESTIMATOR, telemetry=telemetry, run_id=run) as data:
                optimize(None, ESTIMATOR, enc_data=data, max_its=3, delta=None, seed=1)
                kept = data.records
    read = records_from_events(Telemetry(tmp_path / "run.jsonl").events(run_id="b"))
    assert read == kept


def test_observe_is_a_policy():
    telemetry = Telemetry()
    source = encoded_data(ROWS, ESTIMATOR, num_shards=2).transport
    from mixle.utils.parallel.folding.handle import Handle

    policy = Observe(telemetry, run_id="p")
    transport = stack(LocalTransport(shards=source.shards.values()), [policy])
    with Handle(transport) as data:
        model = data.pysp_seq_initialize(ESTIMATOR, np.random.RandomState(0), 0.5)
        data.pysp_seq_estimate(ESTIMATOR, model)
    assert [event.tags for event in telemetry.events()] == [{"run_id": "p"}]


class Foreign:
    """A handle of someone else."""

    def pysp_seq_log_density_sum(self, estimate): ...

    def pysp_seq_estimate(self, estimator, prev_estimate): ...

    def pysp_seq_initialize(self, estimator, rng, p): ...

    def pysp_stream_accumulate(self, estimator, model): ...


def test_a_foreign_handle_keeps_no_records():
    with pytest.raises(BackendError, match="Foreign keeps no records"):
        encoded_data(Foreign(), telemetry=Telemetry())


@pytest.mark.parametrize("kind", [ResilientMPEncodedData, AuditedMPEncodedData])
def test_resilient_and_audited_pools_send_their_records_too(kind):
    telemetry = Telemetry()
    with kind(ROWS, ESTIMATOR, num_workers=2, telemetry=telemetry, run_id="a") as data:
        model = data.pysp_seq_initialize(ESTIMATOR, np.random.RandomState(0), 0.5)
        data.pysp_seq_estimate(ESTIMATOR, model)
        assert {record.rank for record in data.records} == {0, 1}
    events = list(telemetry.events("em_round"))
    assert len(events) == 2
    assert {event.tags["run_id"] for event in events} == {"a"}
