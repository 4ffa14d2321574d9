"""Fits of rows that arrive in batches."""

import math

import numpy as np
import pytest

import mixle.stats as st
from bits import bits
from mixle.inference import estimation
from mixle.inference.streaming import (
    IncrementalEstimator,
    StreamingEstimator,
    constant,
    forgetting,
    harmonic,
    posterior_carry,
    streaming_accumulate,
)
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

X = np.random.RandomState(0).randn(30)


def batches(rows, count=3):
    size = len(rows) // count
    return [rows[i * size : (i + 1) * size] for i in range(count)]


def test_schedules():
    assert [constant(0.3)(t) for t in (1, 9)] == [0.3, 0.3]
    assert [harmonic(0.5, 3.0)(t) for t in (1, 6)] == [0.5, 1.0 / 3.0]
    assert posterior_carry() == "posterior_carry"
    assert estimation.harmonic is harmonic
    assert estimation.forgetting is forgetting
    for wrong in (lambda: constant(0.0), lambda: constant(1.5), lambda: forgetting(0.0), lambda: harmonic(-1.0)):
        with pytest.raises(ValueError, match="must"):
            wrong()


def test_a_batch_replaces_its_share():
    stream = StreamingEstimator(st.GaussianEstimator(), harmonic(0.7))
    means = [float(part.mean()) for part in batches(X)]
    assert stream.update(X[:10]).mu == pytest.approx(means[0], rel=1e-13)
    rho = 3.0**-0.7
    assert stream.update(X[10:20]).mu == pytest.approx((1 - rho) * means[0] + rho * means[1], rel=1e-13)
    assert (stream.step, stream.nobs) == (2, pytest.approx(10.0))
    assert stream.value().weight == pytest.approx(10.0)
    stream.reset()
    assert (stream.step, stream.nobs, stream.value(), stream.model) == (0, 0.0, None, None)


def test_forgetting_discounts_what_was_seen():
    stream = StreamingEstimator(st.PoissonEstimator(), forgetting(0.5))
    stream.update([2, 4])
    assert stream.update([9]).lam == pytest.approx((0.5 * 6 + 9) / (0.5 * 2 + 1), rel=1e-15)
    assert stream.nobs == 2.0


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_stream_that_carries_all_on_has_seen_all(name):
    model = MODELS[name]()
    parts = batches(model.rows)
    stream = StreamingEstimator(model.estimator, posterior_carry(), model.dist)
    first = stream.update(parts[0])
    whole = model.estimator.accumulator_factory().make()
    encoder = whole.acc_to_encoder()
    whole.seq_update(encoder.seq_encode(parts[0]), np.ones(len(parts[0])), model.dist)
    assert bits(stream.value()) == bits(whole.value())
    assert stream.nobs == len(parts[0])
    last = stream.update(parts[1])
    assert stream.nobs == len(parts[0]) + len(parts[1])
    assert type(first) is type(last)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("schedule", [constant(0.3), harmonic(0.7), forgetting(0.9)], ids=["constant", "harmonic", "f"])
def test_every_model_streams(name, schedule):
    model = MODELS[name]()
    stream = StreamingEstimator(model.estimator, schedule, init_p=1.0, rng=3)
    for part in batches(model.rows):
        fitted = stream.update(part)
    assert stream.step == 3
    total = float(np.sum(fitted.seq_log_density(fitted.dist_to_encoder().seq_encode(parts_of(model, part)))))
    assert not math.isnan(total)


def parts_of(model, rows):
    return list(rows)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_chunks_that_come_again_replace_themselves(name):
    model = MODELS[name]()
    parts = batches(model.rows)
    fit = IncrementalEstimator(model.estimator, model.dist)
    for i, part in enumerate(parts):
        fit.model = model.dist
        fit.update(part, chunk_id=i)
    before = bits(fit.value())
    fit.model = model.dist
    again = fit.update(parts[1], chunk_id=1)
    assert bits(fit.value()) == before
    assert fit.nobs == sum(map(len, parts))
    value = model.estimator.accumulator_factory().make().from_value(fit.chunk_value(0)).value()
    assert bits(value) == bits(fit.chunk_value(0))
    assert type(again) is type(fit.model)


def test_incremental_em_converges_to_the_fit_of_all_rows():
    model = MODELS["mixture"]()
    from mixle.inference import optimize

    whole = optimize(model.rows, model.estimator, max_its=500, delta=1e-12, prev_estimate=model.dist)
    fit = IncrementalEstimator(model.estimator, model.dist)
    for _ in range(60):
        for i, part in enumerate(batches(model.rows, 4)):
            fitted = fit.update(part, chunk_id=i)
    assert model.parameters(fitted) == pytest.approx(model.parameters(whole), rel=1e-5)


@pytest.mark.parametrize("backend", ["local", "mp"])
def test_streams_take_handles_and_give_their_bits(backend):
    rows = MODELS["mixture of products"]().rows
    estimator = MODELS["mixture of products"]().estimator
    options = {"num_workers": 2} if backend == "mp" else {}
    digests = []
    for encoded in (True, False):
        stream = StreamingEstimator(estimator, constant(0.4), rng=1, init_p=1.0, num_chunks=3)
        for part in batches(rows):
            if encoded:
                from mixle.utils.parallel.folding.shards import Contiguous

                with encoded_data(part, estimator, backend=backend, num_shards=Contiguous(3), **options) as handle:
                    model = stream.update(enc_data=handle)
            else:
                model = stream.update(part)
        digests.append(model.digest())
    assert digests[0] == digests[1]


def test_a_chunk_list_and_a_handle_accumulate_alike():
    estimator = st.GaussianEstimator()
    chunks = st.seq_encode(list(X), estimator=estimator, num_chunks=2)
    nobs, accumulator = streaming_accumulate(chunks, estimator, None)
    assert nobs == 30.0
    assert estimator.estimate(nobs, accumulator.value()).mu == pytest.approx(X.mean(), rel=1e-13)
    with encoded_data(list(X), estimator) as handle:
        assert streaming_accumulate(handle, estimator, None)[0] == 30.0


def test_a_batch_that_fails_changes_nothing():
    stream = StreamingEstimator(st.GaussianEstimator(), constant(0.5))
    stream.update(X[:10])
    before = (bits(stream.value()), stream.nobs, stream.step, stream.model)
    for wrong in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match=r"row|Row"):
            stream.update(wrong)
    assert (bits(stream.value()), stream.nobs, stream.step, stream.model) == before
    fit = IncrementalEstimator(st.GaussianEstimator())
    fit.update(X[:10], chunk_id="a")
    with pytest.raises(ValueError, match=r"missing|nan"):
        fit.update([math.nan], chunk_id="b")
    assert fit.nobs == 10.0
    with pytest.raises(KeyError, match="no chunk 'b'"):
        fit.chunk_value("b")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: StreamingEstimator(st.GaussianEstimator()).update(), ValueError, "one of the two"),
        (lambda: IncrementalEstimator(st.GaussianEstimator()).update([1.0]), ValueError, "chunk_id"),
        (lambda: StreamingEstimator(st.GaussianEstimator(), "fast"), TypeError, "schedule is"),
        (lambda: StreamingEstimator(st.GaussianEstimator(), lambda t: 2.0), ValueError, r"share in \(0, 1\]"),
        (lambda: StreamingEstimator(st.GaussianEstimator(), dataset_size=0), ValueError, "dataset_size"),
        (lambda: StreamingEstimator(st.GaussianEstimator(), num_chunks=0), ValueError, "num_chunks"),
        (lambda: streaming_accumulate([], st.GaussianEstimator(), None), ValueError, "no observations"),
    ],
)
def test_what_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_batch_stands_for_the_data_set():
    stream = StreamingEstimator(st.PoissonEstimator(10.0, 1.0), constant(0.5), dataset_size=1000.0)
    assert stream.update([3, 3]).lam == pytest.approx((3000.0 + 10.0) / 1010.0, rel=1e-14)
    assert stream.nobs == 1000.0


def test_rows_are_encoded_by_the_encoder_that_is_given():
    encoder = st.GaussianEstimator().accumulator_factory().make().acc_to_encoder()
    stream = StreamingEstimator(st.GaussianEstimator(), encoder=encoder, num_chunks=2)
    assert stream.update(X).mu == pytest.approx(X.mean(), rel=1e-13)
