"""One-pass steps: over chunks, handles and rows."""

import numpy as np
import pytest
from fit_support import SpyHandle, WaitEstimator, clusters, counted

from mixle.errors import KeyValidationError
from mixle.inference import estimate, initialize, seq_estimate, seq_initialize
from mixle.stats import (
    CompositeEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureEstimator,
    PoissonEstimator,
    seq_encode,
)
from mixle.utils.vector import ImpossibleEvidenceError

GAUSS = GaussianEstimator()


def mixture(k=3):
    return MixtureEstimator([GaussianEstimator() for _ in range(k)])


def chunks(rows, estimator=GAUSS, **options):
    return seq_encode(rows, estimator=estimator, **options)


def test_a_step_over_chunks_is_the_step_over_a_handle():
    rows = clusters()
    handle = counted(rows, mixture())
    start = seq_initialize(handle, mixture(), np.random.RandomState(2), 0.3)
    assert seq_initialize(chunks(rows, mixture()), mixture(), np.random.RandomState(2), 0.3).digest() == start.digest()
    step = seq_estimate(handle, mixture(), start)
    assert seq_estimate(chunks(rows, mixture()), mixture(), start).digest() == step.digest()
    assert handle.transport.tasks == ["Sample", "Initialize", "Accumulate"]


def test_a_foreign_handle_is_asked_by_its_documented_method():
    handle = counted(clusters(), mixture(), kind=SpyHandle)
    assert seq_estimate(handle, GAUSS, None).mu == pytest.approx(clusters().mean())


def test_a_foreign_handle_needs_only_the_method_that_is_asked():
    class Step:
        def pysp_seq_estimate(self, estimator, prev_estimate):
            return estimator, prev_estimate

    class Start:
        def pysp_seq_initialize(self, estimator, rng, p):
            return estimator, rng.randint(9), p

    assert seq_estimate(Step(), GAUSS, "previous") == (GAUSS, "previous")
    assert seq_initialize(Start(), GAUSS, 3, 0.5) == (GAUSS, np.random.RandomState(3).randint(9), 0.5)
    for call in (lambda: seq_initialize(Step(), GAUSS, 3), lambda: seq_estimate(Step, GAUSS, None)):
        with pytest.raises(TypeError, match="enc_data must be a handle or a list"):
            call()


def test_chunks_are_folded_in_order_by_one_accumulator():
    rows = clusters()
    split = chunks(rows, num_chunks=3)
    accumulator = GAUSS.accumulator_factory().make()
    for count, payload in split:
        accumulator.seq_update(payload, np.ones(count), None)
    assert seq_estimate(split, GAUSS, None).digest() == GAUSS.estimate(len(rows), accumulator.value()).digest()


def test_a_batch_of_zero_rows_warns_and_gives_the_default_model():
    with pytest.warns(UserWarning, match="zero rows") as seen:
        model = seq_estimate([], GAUSS, None)
    assert seen[0].filename == __file__
    assert (model.mu, model.sigma2) == (0.0, 1e-8)
    with pytest.warns(UserWarning, match="zero rows"):
        seq_estimate([(0, np.empty(0))], GAUSS, None)


def test_empty_chunks_among_full_ones_are_fine():
    assert seq_estimate(chunks([1.0, 3.0], num_chunks=5), GAUSS, None).mu == 2.0


@pytest.mark.parametrize(
    "call", [lambda enc: seq_estimate(enc, GAUSS, None), lambda enc: seq_initialize(enc, GAUSS, 1)]
)
@pytest.mark.parametrize(
    ("encoded", "error", "message"),
    [
        ([(2, np.zeros(3))], ValueError, "declares 2 rows, its payload has 3"),
        ([(1, np.zeros(1)), (5, np.zeros(3))], ValueError, "chunk 1 declares 5 rows"),
        ([(-1, np.zeros(1))], ValueError, "negative"),
        (7, TypeError, "handle or a list"),
        ([1.0, 2.0], TypeError, "handle or a list"),
        (None, TypeError, "handle or a list"),
    ],
)
def test_bad_chunks_are_refused(call, encoded, error, message):
    with pytest.raises(error, match=message):
        call(encoded)


@pytest.mark.parametrize(
    ("rng", "p", "error", "message"),
    [
        (None, 0.1, TypeError, "rng"),
        ("x", 0.1, TypeError, "rng"),
        (1, 0, ImpossibleEvidenceError, "p"),
        (1, 0, ValueError, "p"),
        (1, 1.5, ValueError, "p"),
        (1, True, TypeError, "p"),
        (1, None, TypeError, "p"),
    ],
)
def test_bad_starts_are_refused(rng, p, error, message):
    with pytest.raises(error, match=message):
        seq_initialize(chunks([1.0, 2.0]), GAUSS, rng, p)
    with pytest.raises(error, match=message):
        initialize([1.0, 2.0], GAUSS, rng, p)


def test_a_start_without_rows_is_refused():
    with pytest.raises(ValueError, match="received no observations"):
        seq_initialize([], GAUSS, 1)
    with pytest.raises(ValueError, match="received no observations"):
        initialize([], GAUSS, 1)


def test_a_start_with_more_components_than_rows_is_refused():
    with pytest.raises(ValueError, match="K=3"):
        seq_initialize(chunks([1.0, 2.0], mixture()), mixture(), 1)


def test_the_first_row_is_used_where_no_row_was_kept():
    assert seq_initialize(chunks([5.0, 7.0]), GAUSS, 1, 1e-12).mu == 5.0
    assert initialize([5.0, 7.0], GAUSS, 1, 1e-12).mu == 5.0


def test_generators_and_numbers_start_alike():
    encoded = chunks(clusters())
    assert (
        seq_initialize(encoded, GAUSS, 3, 0.5).digest()
        == seq_initialize(encoded, GAUSS, np.random.RandomState(3), 0.5).digest()
    )
    assert np.isfinite(seq_initialize(encoded, GAUSS, np.random.default_rng(3), 0.5).mu)


def test_a_stream_that_is_handed_in_is_advanced():
    encoded, rng = chunks(clusters()), np.random.RandomState(3)
    assert seq_initialize(encoded, GAUSS, rng, 0.5).digest() != seq_initialize(encoded, GAUSS, rng, 0.5).digest()


def test_keys_that_cannot_be_honoured_are_refused():
    tied = CompositeEstimator((GaussianEstimator(keys="k"), PoissonEstimator(keys="k")))
    for call in (
        lambda: seq_estimate(chunks([(1.0, 2)], tied), tied, None),
        lambda: seq_initialize(chunks([(1.0, 2)], tied), tied, 1),
        lambda: estimate([(1.0, 2)], tied),
        lambda: initialize([(1.0, 2)], tied, 1),
    ):
        with pytest.raises(KeyValidationError):
            call()


class Foreign:
    """A handle by structure alone, which checks nothing."""

    def pysp_seq_log_density_sum(self, estimate):
        raise AssertionError("not reached")

    pysp_seq_estimate = pysp_seq_initialize = pysp_stream_accumulate = pysp_seq_log_density_sum


def test_keys_are_checked_before_a_foreign_handle_is_asked():
    tied = CompositeEstimator((GaussianEstimator(keys="k"), PoissonEstimator(keys="k")))
    with pytest.raises(KeyValidationError):
        seq_estimate(Foreign(), tied, None)
    with pytest.raises(KeyValidationError):
        seq_initialize(Foreign(), tied, 1)


def test_chunks_are_drawn_from_as_one_run_of_rows():
    rows = clusters()
    whole = seq_initialize(chunks(rows), GAUSS, 4, 0.3)
    parts = seq_initialize([*chunks(rows[:70]), *chunks(rows[70:])], GAUSS, 4, 0.3)
    assert (parts.mu, parts.sigma2) == pytest.approx((whole.mu, whole.sigma2), rel=1e-12)


def test_row_by_row_agrees_with_the_encoded_step():
    rows = list(clusters(40))
    start = seq_initialize(chunks(rows, mixture()), mixture(), 1, 1.0)
    a, b = estimate(rows, mixture(), start), seq_estimate(chunks(rows, mixture()), mixture(), start)
    for left, right in zip(a.components, b.components, strict=True):
        assert (left.mu, left.sigma2) == pytest.approx((right.mu, right.sigma2))


def test_row_by_row_ties_keys():
    tied = CompositeEstimator((GaussianEstimator(keys="k"), GaussianEstimator(keys="k")))
    model = estimate([(0.0, 10.0), (2.0, 12.0)], tied)
    assert [dist.mu for dist in model.dists] == pytest.approx([6.0, 6.0])


def test_user_families_and_distributions_serve_as_estimators():
    assert estimate([1.0, 3.0], WaitEstimator()).rate == 0.5
    assert seq_estimate(chunks([1.0, 3.0], WaitEstimator()), WaitEstimator(), None).rate == 0.5
    assert initialize([1.0, 3.0], WaitEstimator(), 1, 1.0).rate == 0.5
    assert seq_estimate(chunks([1.0, 3.0]), GaussianDistribution(0.0, 1.0), None).mu == 2.0


def test_row_by_row_accepts_what_optimize_accepts():
    assert estimate(iter([1.0, 3.0]), GAUSS).mu == 2.0
    assert estimate(np.array([1.0, 3.0], dtype=np.float32), GAUSS).mu == 2.0
