"""Bytes flipped on the pipe between a worker and the driver: the reply is asked for again, and the bits are clean."""

import numpy as np
import pytest

from mixle.errors import AlteredPayload
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.multiprocessing import MPEncodedData
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData

pytestmark = pytest.mark.chaos

SHARDS = 4
ROWS = [float(x) for x in np.random.RandomState(5).normal(size=80)]
EST = MixtureEstimator([GaussianEstimator()] * 2)
LOCAL = LocalEncodedData(ROWS, EST, num_shards=SHARDS)
START = LOCAL.pysp_seq_initialize(EST, 3, 0.5)
CLEAN = LOCAL.pysp_seq_estimate(EST, START).digest()


def flip_replies(shard, at, times):
    """Runs in a worker: flip a bit of its next replies, after their checksums were made."""
    from mixle.utils.parallel.transports.process import wire

    original, sent = wire.FrameWriter.put, []

    def put(writer, parts):
        sent.append(1)
        if 1 < len(sent) <= times + 1:  # the first one answers this call
            body = bytearray(b"".join(bytes(part) for part in parts[1:]))
            body[int(at * len(body))] ^= 16
            parts = [parts[0], memoryview(body)]
        return original(writer, parts)

    wire.FrameWriter.put = put


def arm(handle, at, times=1, worker=1):
    transport = handle.transport
    while hasattr(transport, "inner"):
        transport = transport.inner
    transport.run(
        Apply(flip_replies, (at, times)), min(s for s, one in transport.owner.items() if one == worker), worker
    )


@pytest.mark.parametrize("at", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_an_altered_reply_is_a_loss_that_is_asked_for_again(at):
    with ResilientMPEncodedData(ROWS, EST, num_workers=2, num_shards=SHARDS) as handle:
        arm(handle, at)
        pids = {worker: process.pid for worker, process in handle._procs.items()}
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
        (loss,) = handle.last_round_losses
        assert (loss.worker, loss.kind, len(loss.shards)) == (1, "garbled reply", 1)
        assert "checksum" in loss.cause or "frame" in loss.cause
        assert handle.last_round_failed_workers == set()
        assert {worker: process.pid for worker, process in handle._procs.items()} == pids
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
        assert handle.last_round_losses == ()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_an_audit_writes_down_what_was_altered(rate):
    with AuditedMPEncodedData(ROWS, EST, num_workers=2, num_shards=SHARDS, audit_rate=rate) as handle:
        arm(handle, 0.5)
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
        assert [(one.worker, one.check, one.outcome) for one in handle.audit_alarms] == [(1, "wire", "sent again")]
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
        assert len(handle.audit_alarms) == 1


def test_a_pipe_that_alters_everything_is_told_and_the_pool_stays_usable():
    with ResilientMPEncodedData(ROWS, EST, num_workers=2, num_shards=SHARDS) as handle:
        arm(handle, 0.5, times=10)
        with pytest.raises(AlteredPayload, match="altered on its way"):
            handle.pysp_seq_estimate(EST, START)
        assert [loss.kind for loss in handle.last_round_losses] == ["garbled reply"] * 6
        arm(handle, 0.5, times=0)
        while True:  # what the first call armed wears off
            try:
                model = handle.pysp_seq_estimate(EST, START)
            except AlteredPayload:
                continue
            break
        assert model.digest() == CLEAN


def test_without_retry_the_error_names_the_shard():
    with MPEncodedData(ROWS, EST, num_workers=2, num_shards=SHARDS) as handle:
        arm(handle, 0.5)
        with pytest.raises(AlteredPayload, match="shard"):
            handle.pysp_seq_estimate(EST, START)
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
