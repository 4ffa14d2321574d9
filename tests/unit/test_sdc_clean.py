"""No false alarms: clean shards of every family pass every check of every round; clean votes accuse nobody."""

import os
import pickle

import numpy as np
import pytest
from tests.models import MODELS

import mixle.stats as st
from mixle.errors import CorruptedRows
from mixle.stats.identities import watching
from mixle.utils.parallel.folding.digests import rows_digest, sealed
from mixle.utils.parallel.folding.fold import fold_results
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.mstep import m_step
from mixle.utils.parallel.folding.packing import arena, packed
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, execute
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.policies.invariants import Invariants
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData

FULL = os.environ.get("MIXLE_INJECTIONS") == "full"
SHARD_ROUNDS = 1_000_000 if FULL else 3_000
SHARDS, TURNS = 24, 20 if FULL else 5


def hard(rng, name):
    """Return rows and an estimator: a family's own rows, or numbers that are hard to add up."""
    if name in MODELS:
        model = MODELS[name]()
        latent = hasattr(model.estimator, "estimators")
        return model.rows, model.estimator if latent else st.MixtureEstimator([model.estimator] * 2)
    offset, scale = {"1e9": (1e9, 1.0), "tiny": (0.0, 1e-150), "two scales": (0.0, 1.0)}.get(name, (1e6, 1.0))
    rows = offset + scale * rng.normal(size=(480, 3))
    if name == "two scales":
        rows[::2] = 1e6 + 1e-3 * rows[::2]
    if name == "ill-conditioned":
        return rows * [1e-4, 1.0, 1.0], st.MixtureEstimator([st.MultivariateGaussianEstimator(3)] * 2)
    return rows, st.MixtureEstimator([st.DiagonalGaussianEstimator(3)] * 3)


NAMES = [*MODELS, "1e9", "tiny", "two scales", "ill-conditioned"]


def clean_rounds(name, rounds, seed=5):
    """Return how many shard-rounds were checked, and which were not passed."""
    rng = np.random.RandomState(seed)
    checked, alarms = 0, []
    while checked < rounds:
        rows, estimator = hard(rng, name)
        order = rng.permutation(len(rows))
        rows = rows[order] if isinstance(rows, np.ndarray) else [rows[i] for i in order]
        weights = rng.uniform(0.0, 2.0, len(rows)) if rng.rand() < 0.3 else None
        handle = LocalEncodedData(rows, estimator, num_shards=SHARDS, weights=weights)
        encoder = estimator.accumulator_factory().make().acc_to_encoder()
        source = make_source(rows, encoder, Strided(SHARDS), 1, weights, estimator)
        shards = {shard: packed(source.encode(shard)) for shard in range(SHARDS)}
        digests = {shard: rows_digest(one) for shard, one in shards.items()}
        invariants = Invariants()
        model = handle.pysp_seq_initialize(estimator, rng, 0.5)
        for turn in range(TURNS):
            task = Accumulate(estimator, pickle.loads(pickle.dumps(model)), True, turn)
            results = {shard: execute(task, one) for shard, one in shards.items()}
            found = invariants.broken(
                task, results, lambda task, which, of=shards: {one: execute(task, of[one]) for one in which}
            )
            found += [one for one, result in results.items() if result.receipt["rows"] != digests[one]]
            found += [-1] * (task.received() != model_digest(model))
            alarms += [(checked, turn, one, invariants.last.get(one)) for one in found]
            nobs, value = fold_results(estimator, [results[shard] for shard in sorted(results)])
            total = invariants.total_residual(estimator, value)
            alarms += [(checked, turn, "fold", total)] * (total is not None and not total <= 1.0)
            model = m_step(estimator, nobs, value, model)
            checked += SHARDS
    return checked, alarms


@pytest.mark.injections
@pytest.mark.parametrize("name", NAMES)
def test_clean_shards_raise_no_alarm(name):
    checked, alarms = clean_rounds(name, SHARD_ROUNDS // len(NAMES))
    assert checked >= SHARD_ROUNDS // len(NAMES)
    assert alarms == []


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name]().latent])
def test_model_has_one_digest_before_and_after_its_use_and_in_another_pickle(name):
    model = MODELS[name]()
    wanted = model_digest(model.dist)
    arrived = pickle.loads(pickle.dumps(model.dist))
    handle = LocalEncodedData(model.rows, model.estimator)
    handle.pysp_stream_accumulate(model.estimator, arrived)
    assert model_digest(arrived) == wanted is not None
    assert model_digest(pickle.loads(pickle.dumps(arrived, 2))) == wanted


def _sequences(rng):
    return [rng.normal(size=30).tolist() for _ in range(60)], st.HiddenMarkovEstimator([st.GaussianEstimator()] * 3)


@pytest.mark.parametrize("case", [lambda rng: hard(rng, "1e9"), _sequences])
def test_identity_sees_a_flipped_log_density(monkeypatch, case):
    """A mixture looks at its log-densities where they are used, a hidden Markov model where they are made."""
    from mixle.stats.stacking import natural

    rows, estimator = case(np.random.RandomState(1))
    model = LocalEncodedData(rows, estimator).pysp_seq_initialize(estimator, 3, 0.5)
    encoded = estimator.accumulator_factory().make().acc_to_encoder().seq_encode(rows)
    product = natural.product
    seen = {}
    for bit in (63, 62, 52, 45, 38):

        def flipped(e, f, out, bit=bit):
            product(e, f, out)
            out.view(np.uint64)[1, 7] ^= np.uint64(1 << bit)

        monkeypatch.setattr(natural, "product", flipped)
        with watching(15) as watch:
            estimator.accumulator_factory().make().seq_update_scored(encoded, None, model)
        seen[bit] = not watch.worst <= 1.0
    assert seen == dict.fromkeys(seen, True)
    monkeypatch.setattr(natural, "product", product)
    with watching(15) as watch:
        estimator.accumulator_factory().make().seq_update_scored(encoded, None, model)
    assert (watch.checked, watch.worst) == (1, 0.0)


@pytest.mark.parametrize("levels", [5, 60])
def test_a_log_density_that_changes_before_it_is_used_is_seen_with_labels_in_a_table_too(monkeypatch, levels):
    """60 levels are looked up in a table, 5 stand in the block."""
    from mixle.stats.stacking.walk import Walk

    rng = np.random.RandomState(2)
    rows = [
        (float(x), f"level {n}") for x, n in zip(rng.normal(size=2000), rng.randint(levels, size=2000), strict=True)
    ]
    estimator = st.MixtureEstimator([st.CompositeEstimator([st.GaussianEstimator(), st.CategoricalEstimator()])] * 3)
    model = LocalEncodedData(rows, estimator).pysp_seq_initialize(estimator, 3, 0.5)
    encoded = estimator.accumulator_factory().make().acc_to_encoder().seq_encode(rows)
    score = Walk.score_block

    def worst(bit):
        def flipped(walk, start, stop, out):
            score(walk, start, stop, out)
            if bit is not None:
                out.view(np.uint64)[1, 7] ^= np.uint64(1 << bit)

        monkeypatch.setattr(Walk, "score_block", flipped)
        with watching(15) as watch:
            estimator.accumulator_factory().make().seq_update_scored(encoded, None, model)
        assert watch.checked == 1
        return watch.worst

    assert worst(None) <= 1.0
    assert not any(worst(bit) <= 1.0 for bit in (63, 62, 52, 45))


def test_a_variance_that_underflowed_leaves_no_identity_and_no_alarm():
    from mixle.stats.identities import Watch

    f = np.ones((3, 8))
    e = np.array([[1.0, 2.0, -np.inf], [1.0, 2.0, 3.0]])
    with np.errstate(all="ignore"):
        out = e @ f
        for spoiled in (False, True):
            out[1, 3] += 1e-9 * spoiled
            watch = Watch(127)
            assert watch.turns()
            watch.scored(e, f, out, False)
            watch.gathered(out @ f.T, f, out)
            assert (watch.worst <= 1.0) is not spoiled


def test_weighted_identity_sees_a_statistic_that_is_given_to_another_component():
    from mixle.stats.identities import Watch

    rng = np.random.RandomState(0)
    e, f = rng.normal(size=(4, 5)), rng.normal(size=(5, 64))
    r = rng.dirichlet(np.ones(4), 64).T.copy()
    for s, sound in ((r @ f.T, True), ((r @ f.T)[::-1], False)):
        watch = Watch(127)  # the first block is its turn
        assert watch.turns()
        watch.scored(e, f, e @ f, False)
        watch.gathered(s, f, r)
        assert watch.checked == 2
        assert (watch.worst <= 1.0) is sound


def test_a_variance_that_underflowed_in_a_fit_warns_nobody():
    wide = st.DiagonalGaussianDistribution([0.0, 0.0], [1e-8, 1e-8])
    narrow = st.DiagonalGaussianDistribution([0.0, 0.0], [5e-324, 1e-8])
    estimator = st.MixtureEstimator([st.DiagonalGaussianEstimator(2)] * 2)
    handle = LocalEncodedData(1e-150 * np.random.RandomState(1).normal(size=(40, 2)), estimator)
    nobs, _ = handle.pysp_stream_accumulate(estimator, st.MixtureDistribution([wide, narrow], [0.5, 0.5]))
    assert nobs == 40


def test_every_flipped_bit_of_rows_at_rest_changes_their_digest():
    rows = np.random.RandomState(3).normal(size=(40, 3))
    estimator = st.DiagonalGaussianEstimator(3)
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    source = make_source(rows, encoder, Strided(2), 1, np.ones(40), estimator)
    shard = packed(source.encode(1))
    wanted = rows_digest(shard)
    assert wanted == rows_digest(source.encode(1))  # wherever and however they lie
    for array in (shard.chunks[0].payload, shard.chunks[0].weights):
        words = array.view(np.uint64)
        for at in np.ndindex(words.shape):
            for bit in range(64):
                words[at] ^= np.uint64(1 << bit)
                assert rows_digest(shard) != wanted
                words[at] ^= np.uint64(1 << bit)
    assert rows_digest(shard) == wanted


def test_two_rows_in_each_others_place_have_another_sha256_though_not_another_digest():
    rows = np.random.RandomState(3).normal(size=(40, 3))
    estimator = st.DiagonalGaussianEstimator(3)
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    one, other = (make_source(part, encoder, Strided(2), 1, None, estimator).encode(0) for part in (rows, rows[::-1]))
    exchanged = make_source(rows[[2, 1, 0, *range(3, 40)]], encoder, Strided(2), 1, None, estimator).encode(0)
    assert rows_digest(one) == rows_digest(exchanged) != rows_digest(other)
    assert sealed(one) == sealed(arena(packed(one))) != sealed(exchanged)


def test_fresh_rows_are_held_against_the_first_encodings_sha256():
    """What is computed again from rows that pass the digest alone is not believed."""
    rows = np.random.RandomState(3).normal(size=(40, 3))
    estimator = st.MixtureEstimator([st.DiagonalGaussianEstimator(3)] * 2)
    with AuditedMPEncodedData(rows, estimator, num_workers=2, num_shards=4, audit_rate=0.0) as handle:
        intake = handle.transport._intake
        assert sorted(intake.seals) == [0, 1, 2, 3]
        assert all(len(one) == 64 for one in intake.seals.values())
        model = handle.pysp_seq_initialize(estimator, 3, 0.5)
        clean = handle.pysp_seq_estimate(estimator, model).digest()
        intake.rows[1] = "0" * 32  # suspicion, and then a fresh copy that is another one
        intake.seals[1] = "0" * 64
        with pytest.raises(CorruptedRows):
            handle.pysp_seq_estimate(estimator, model)
    assert len(clean) == 64


@pytest.mark.injections
def test_a_vote_never_convicts_an_innocent():
    """One of three statistics is wrong anyhow, honest ones differ by rounding: who is suspected is the wrong one."""
    from types import SimpleNamespace

    from mixle.utils.parallel.folding.tasks import Result
    from mixle.utils.parallel.policies.ballots import Ballot, judge
    from mixle.utils.parallel.policies.hearing import Hearing, _Dispute

    rng = np.random.RandomState(11)
    honest = (np.array([3.0, 1e9, 1e-7, 0.0]), 5.0)
    policy = SimpleNamespace(inner=None, rtol=1e-12, atol=1e-12)
    hearing = Hearing(policy, None, {}, True)
    convicted = trials = 0
    for _ in range(100_000 if FULL else 2_000):
        ballots = []
        culprit = rng.randint(4)  # 3: nobody
        for worker in range(3):
            numbers = honest[0] * (1.0 + rng.randint(-3, 4, 4) * 2.0**-53)
            if worker == culprit:
                numbers.view(np.uint64)[rng.randint(4)] ^= np.uint64(1 << rng.randint(64))
            ballots.append(Ballot(Result(0, 5, 5.0, (numbers, honest[1]), None, {}), worker))
        found = judge(ballots[0], ballots[1], policy.rtol, policy.atol)
        if found.match:
            continue
        trials += 1
        dispute = _Dispute(ballots[0], ballots[1], found, ballots[2])
        hearing._suspect(dispute)
        if dispute.suspect is not None:
            convicted += 1
            assert dispute.suspect == culprit
    assert convicted > trials // 2
