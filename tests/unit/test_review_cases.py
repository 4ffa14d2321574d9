"""Cases that reviewers found: layouts, neighbours, ties, nested starts, rows without weight."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys

import numpy as np
import pytest

from mixle.errors import KeyValidationError, SupportError
from mixle.inference import initialize, optimize
from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CompositeDistribution,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    ExponentialDistribution,
    ExponentialEstimator,
    GaussianDistribution,
    GaussianEstimator,
    IntegerCategoricalEstimator,
    LogGaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
    MultivariateGaussianEstimator,
    OptionalEstimator,
    PoissonEstimator,
    SequenceEstimator,
    seq_encode,
    validate_estimator_keys,
)
from mixle.utils.parallel.planner import LocalEncodedData, encoded_data

BASE = np.random.RandomState(0).normal(size=(3, 6000))
LAYOUTS = {
    "C": np.ascontiguousarray(BASE.T[10:]),
    "F": np.asfortranarray(BASE.T[10:]),
    "slice of F": BASE.T[10:],
    "strided": np.repeat(BASE.T[10:], 2, axis=1)[:, ::2],
    "list": BASE.T[10:].tolist(),
}


@pytest.mark.parametrize("backend", ["local", "mp"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "estimator", [DiagonalGaussianEstimator(), MultivariateGaussianEstimator()], ids=["diagonal", "full"]
)
def test_bits_do_not_follow_the_memory_layout(estimator, layout, backend):
    digests = []
    for rows, where in ((LAYOUTS["C"], "local"), (LAYOUTS[layout], backend)):
        with encoded_data(rows, estimator, backend=where, num_shards=3) as handle:
            digests.append(handle.pysp_seq_estimate(estimator, None).digest())
    assert digests[0] == digests[1]


KERNELS = """
import numpy as np
from mixle.stats import *
rng = np.random.RandomState(1)
labels = [f"l{i}" for i in range(19)]
def part():
    cat = CategoricalDistribution(dict(zip(labels, rng.dirichlet(np.ones(19)))), default_value=0.01)
    return CompositeDistribution((GaussianDistribution(rng.normal(), 1.0), cat, PoissonDistribution(3.0)))
model = MixtureDistribution([part() for _ in range(5)])
rows = model.sampler(1).sample(500)
encode = model.dist_to_encoder().seq_encode
alone = model.seq_log_density(encode(rows))
for more in range(1, 5):
    others = rows + [(0.0, f"Z{i}", 1) for i in range(more)]
    assert (model.seq_log_density(encode(others))[:500] == alone).all(), more
assert all(model.log_density(row) == score for row, score in zip(rows[:40], alone))
"""


@pytest.mark.parametrize("kernel", ["", "Haswell", "Nehalem"])
def test_a_row_does_not_depend_on_the_labels_of_others(kernel):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS")}
    if kernel:
        environment["OPENBLAS_CORETYPE"] = kernel
    subprocess.run([sys.executable, "-c", KERNELS], env=environment, check=True)


THREADS = """
import numpy as np
from mixle.stats import *
from mixle.inference import optimize
rng = np.random.RandomState(0)
x = rng.normal(size=(600, 200)) @ rng.normal(size=(200, 200))
def law(shift):
    a = rng.normal(size=(200, 200))
    return MultivariateGaussianDistribution(np.full(200, shift), a @ a.T + np.eye(200))
start = MixtureDistribution([law(0.0), law(1.0)])
print(optimize(x, start.estimator(), prev_estimate=start, max_its=2, delta=None).digest())
"""


def test_the_number_of_blas_threads_changes_no_bit():
    digests = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", THREADS], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(run.stdout)
    assert len(digests) == 1


def test_labels_of_rows_without_weight_are_not_seen():
    model = optimize(["a", "b", "c"], CategoricalEstimator(pseudo_count=1.0), weights=[1.0, 1.0, 0.0])
    assert model.pmap == {"a": 0.5, "b": 0.5}
    assert optimize([1, 2, 9], IntegerCategoricalEstimator(), weights=[1.0, 1.0, 0.0]).p_vec.tolist() == [0.5, 0.5]


def test_a_shard_outside_the_support_adds_no_label():
    rows = [10**9, 10**9 + 1, 0.5, 0.25]
    estimator = MixtureEstimator([IntegerCategoricalEstimator()])
    with encoded_data(rows, estimator, num_chunks=2) as handle:
        start = handle.pysp_seq_initialize(estimator, np.random.RandomState(1), 1.0)
    assert start.components[0].min_val == 10**9
    assert len(start.components[0].p_vec) == 2


def test_integers_that_float64_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match=r"Row 1 .*too large"):
        seq_encode([2**53 - 1, 2**53 + 2], estimator=IntegerCategoricalEstimator())


def test_row_by_row_initialisation_tells_components_apart():
    rng = np.random.RandomState(1)
    rows = np.concatenate([rng.normal(0.0, 1.0, 500), rng.normal(50.0, 1.0, 500)])
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    start = initialize(list(rows), estimator, np.random.RandomState(0), 0.5)
    fitted = optimize(rows, estimator, prev_estimate=start, max_its=100)
    assert sorted(round(c.mu) for c in fitted.components) == [0, 50]


def nested(inner):
    return CompositeEstimator([inner, GaussianEstimator()])


WRAPPED = {
    "composite": (nested, lambda x: (x, 0.0), lambda m: m.dists[0]),
    "optional": (lambda inner: OptionalEstimator(inner, est_prob=True), lambda x: x, lambda m: m.dist),
    "mixture": (lambda inner: MixtureEstimator([nested(inner)] * 2), lambda x: (x, 0.0 if x < 30 else 1.0), None),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_start_of_an_inner_mixture_agrees_across_maps(name):
    wrap, row, inside = WRAPPED[name]
    rng = np.random.RandomState(2)
    rows = [
        row(float(x)) for x in np.where(rng.rand(4000) < 0.5, rng.normal(0.0, 1.0, 4000), rng.normal(50.0, 1.0, 4000))
    ]
    estimator = wrap(MixtureEstimator([GaussianEstimator()] * 2))
    found = []
    for shards in (1, 8, 16):
        with encoded_data(rows, estimator, num_shards=shards) as handle:
            start = handle.pysp_seq_initialize(estimator, np.random.RandomState(3), 0.5)
        mixtures = [inside(start)] if inside else [c.dists[0] for c in start.components]
        found.append([c.mu for m in mixtures for c in m.components])
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert found[2] == pytest.approx(found[0], rel=1e-9)
    if inside:
        assert sorted(round(mu, -1) for mu in found[0]) == [0.0, 50.0]


def test_keys_inside_a_tied_part_are_refused():
    part = CompositeEstimator([GaussianEstimator(keys="inner")], keys="outer")
    with pytest.raises(KeyValidationError, match="inside a part tied as a whole by 'outer'"):
        validate_estimator_keys(CompositeEstimator([part, part]))


def test_a_tied_part_may_hold_a_mixture():
    part = CompositeEstimator([MixtureEstimator([GaussianEstimator()] * 2)], keys="c")
    rows = [((float(x),), (float(x) + 1.0,)) for x in range(20)]
    model = optimize(rows, CompositeEstimator([part, part]), max_its=3, delta=None, seed=1)
    one, two = (d.dists[0] for d in model.dists)
    assert str(one) == str(two)


def test_an_empty_component_that_is_tied_takes_the_pooled_statistic():
    rows = np.random.RandomState(0).normal(size=200)
    estimator = MixtureEstimator([GaussianEstimator(keys="v")] * 2)
    start = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(1e6, 1.0)])
    model = optimize(rows, estimator, prev_estimate=start, max_its=1, delta=None)
    assert str(model.components[0]) == str(model.components[1])


def test_an_inner_mixture_keeps_its_empty_component():
    away = GaussianDistribution(1e6, 1.0)
    start = CompositeDistribution((MixtureDistribution([GaussianDistribution(0.0, 1.0), away]),))
    rows = [(float(x),) for x in np.random.RandomState(0).normal(size=100)]
    estimator = CompositeEstimator([MixtureEstimator([GaussianEstimator()] * 2)])
    model = optimize(rows, estimator, prev_estimate=start, max_its=2, delta=None)
    assert str(model.dists[0].components[1]) == str(away)


def test_a_row_that_an_inner_mixture_does_not_support_is_refused_by_name():
    start = CompositeDistribution((MixtureDistribution([ExponentialDistribution(1.0), ExponentialDistribution(2.0)]),))
    estimator = CompositeEstimator([MixtureEstimator([ExponentialEstimator()] * 2)])
    with pytest.raises(SupportError, match=r"Row 1, field 0 \(Mixture\): no component supports"):
        optimize([(1.0,), (-1.0,), (3.0,)], estimator, prev_estimate=start, max_its=2)


def test_a_mixture_carries_its_keys_to_the_next_fit():
    estimator = MixtureEstimator([GaussianEstimator()] * 2, keys=("w", "c"))
    model = optimize(np.arange(20.0), estimator, max_its=1, delta=None)
    assert model.estimator().keys == ("w", "c")
    assert type(model).from_json(model.to_json()).keys == ("w", "c")


def test_labels_may_be_dates():
    moment = dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC)
    labels = [dt.date(2020, 1, 1), moment, dt.time(3), dt.timedelta(days=2, seconds=1)]
    model = CategoricalDistribution(dict.fromkeys(labels, 0.25))
    again = CategoricalDistribution.from_json(model.to_json())
    assert list(again.pmap) == labels
    assert again.digest() == model.digest()


def test_full_covariances_survive_collapsing_components():
    for seed in range(25):
        rng = np.random.RandomState(seed)
        rows = rng.normal(size=(60, 4)) * [1.0, 1.0, 1.0, 100.0]
        rows[:20, 2], rows[:25, 1] = 3.0, np.round(rows[:25, 1])
        estimator = MixtureEstimator([MultivariateGaussianEstimator()] * 6)
        model = optimize(rows, estimator, max_its=200, delta=1e-6, seed=seed)
        assert np.isfinite(model.seq_log_density(rows)).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CompositeEstimator(GaussianEstimator()), "takes its parts as one sequence"),
        (lambda: MixtureEstimator(GaussianEstimator()), "takes its parts as one sequence"),
        (lambda: MixtureEstimator([GaussianEstimator, GaussianEstimator]), "pass an instance"),
        (lambda: GaussianDistribution(0.0, 1.0).seq_log_density([1.0, 2.0]), "encoded rows are needed"),
    ],
)
def test_likely_slips_are_told(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_a_sequence_of_mixtures_still_fits():
    rows = [[float(x) for x in np.random.RandomState(i).normal(10.0 * (i % 2), 1.0, 5)] for i in range(60)]
    model = optimize(
        rows, SequenceEstimator(MixtureEstimator([GaussianEstimator()] * 2)), max_its=50, seed=1, init_p=1.0
    )
    assert np.isfinite([c.mu for c in model.dist.components]).all()


def test_a_row_that_one_family_does_not_support_starts_in_the_others():
    rows = [-3.0, 1.0, 2.0, 4.0, -5.5, 3.0]
    estimator = MixtureEstimator([PoissonEstimator(), GaussianEstimator()])
    handle = LocalEncodedData(rows, estimator)
    start = handle.pysp_seq_initialize(estimator, np.random.RandomState(1), 1.0)
    assert np.isfinite(start.seq_log_density(start.dist_to_encoder().seq_encode(rows))).all()
    same = MixtureEstimator([PoissonEstimator()] * 2)
    started = LocalEncodedData(rows, same).pysp_seq_initialize(same, np.random.RandomState(1), 1.0)
    assert sum(w * c.lam for w, c in zip(started.w, started.components, strict=True)) == pytest.approx(10.0 / 4.0)


def test_rows_encoded_for_another_family_are_refused():
    rows = np.exp(np.random.RandomState(0).normal(size=50))
    with encoded_data(rows, GaussianEstimator()) as handle:
        with pytest.raises(ValueError, match="encoded for Gaussian, the estimator reads LogGaussian"):
            optimize(None, LogGaussianEstimator(), enc_data=handle)
        with pytest.raises(ValueError, match="reads Poisson"):
            handle.pysp_seq_estimate(PoissonEstimator(), None)
        assert optimize(None, MixtureEstimator([GaussianEstimator()] * 2), enc_data=handle, max_its=2, delta=None)


def test_num_shards_of_a_fit_makes_bits_independent_of_the_workers():
    rows = np.random.RandomState(0).normal(size=300)
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    ways = [{}, {"backend": "mp", "num_workers": 1}, {"backend": "mp", "num_workers": 3}]
    fits = [optimize(rows, estimator, seed=1, num_shards=6, max_its=5, delta=None, **way) for way in ways]
    assert len({model.digest() for model in fits}) == 1
