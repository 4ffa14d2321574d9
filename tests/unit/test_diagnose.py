"""The verdict on slow ranks: operating characteristics by seeded simulation, and what it may not be fooled by."""

import json
import math

import numpy as np
import pytest

from mixle.utils.parallel.em_observability import RankRecord, detect_stragglers, diagnose
from mixle.utils.parallel.observing.evidence import HISTORY, level, weigh, windows

#: Runs per case of the simulation: enough to tell 0.95 from 0.92.
RUNS = 300
PAIR_RUNS = 500


def sigma(cv):
    """Standard deviation of the logarithm of a lognormal time with this coefficient of variation."""
    return math.sqrt(math.log1p(cv * cv))


def allowed(cv, factor):
    """Rounds within which a rank slower by `factor` must be named."""
    return max(1, int(1.5 * math.ceil((6.05 * sigma(cv) / math.log(factor)) ** 2)))


def simulate(rng, runs, ranks, rounds, cv):
    """Return log times per row: the work of uneven shards cancels."""
    return sigma(cv) * rng.standard_normal((runs, ranks, rounds))


def recall(seed, ranks, slow, cv, factor, runs):
    """Return the share of slow ranks named in time, and false verdicts per healthy rank and round."""
    rounds = allowed(cv, factor)
    times = simulate(np.random.default_rng(seed), runs, ranks, HISTORY + rounds, cv)
    times[:, :slow, HISTORY:] += math.log(factor)
    named, false = np.zeros((runs, slow), dtype=bool), 0
    for now in range(HISTORY + 1, HISTORY + rounds + 1):
        verdict = weigh(times[..., :now]).p < level(now, ranks)
        named |= verdict[:, :slow]
        false += int(verdict[:, slow:].sum())
    return named.mean(), false / (runs * (ranks - slow) * rounds)


CASES = [
    (ranks, slow, cv, factor)
    for ranks, slow in ((3, 1), (4, 2), (8, 1), (8, 4))
    for cv, factor in ((0.05, 1.2), (0.05, 2.0), (0.1, 1.5), (0.1, 2.0), (0.2, 2.0), (0.3, 3.0))
] + [(64, 32, 0.1, 2.0), (64, 1, 0.05, 1.5), (64, 32, 0.05, 1.2)]


@pytest.mark.parametrize(("ranks", "slow", "cv", "factor"), CASES)
def test_slow_ranks_are_named_in_time(ranks, slow, cv, factor):
    """Recall at least 0.95, up to three standard errors of the simulation."""
    runs = RUNS if ranks <= 8 else 40
    share, _ = recall(7, ranks, slow, cv, factor, runs)
    assert share >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / (runs * slow))


PAIR_CASES = [
    (0.05, 1.2), (0.05, 1.5), (0.05, 2.0), (0.1, 1.2), (0.1, 1.5), (0.1, 2.0), (0.1, 3.0),
    (0.2, 1.5), (0.2, 2.0), (0.2, 3.0), (0.3, 2.0), (0.3, 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("cv", "factor"), PAIR_CASES)
def test_of_two_ranks_the_slow_one_is_named(cv, factor):
    """Recall at least 0.95, up to three standard errors of the simulation."""
    share, _ = recall(11, 2, 1, cv, factor, PAIR_RUNS)
    assert share >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / PAIR_RUNS)


def false_verdicts(seed, ranks, runs, rounds=20):
    """Return false verdicts and rank-rounds of healthy fits."""
    rng, false = np.random.default_rng(seed), 0
    for cv in (0.05, 0.3):
        times = simulate(rng, runs, ranks, rounds, cv)
        for now in range(2, rounds + 1):
            false += int((weigh(times[..., :now]).p < level(now, ranks)).sum())
    return false, 2 * runs * ranks * rounds


@pytest.mark.parametrize(("ranks", "runs"), [(2, 1000), (3, 400), (8, 120), (64, 15)])
def test_false_verdicts_are_rare(ranks, runs):
    """At most one per 10,000 rank-rounds, up to three standard errors; verdicts of successive rounds come together."""
    false, tests = false_verdicts(3, ranks, runs)
    expected = 1e-4 * tests
    assert false <= expected + 3.0 * math.sqrt(3.0 * expected)


def test_levels_add_up_to_the_promised_rate():
    for ranks in (1, 2, 3, 4, 5, 7, 8, 64, 1000):
        for rounds in (7, 8, 9, 10, 20, 100, 1000):
            assert sum(level(now, ranks) for now in range(1, rounds + 1)) / rounds <= 1.05e-4


def test_windows_share_out_the_whole_level():
    for ranks in (2, 64):
        for rounds in range(1, 200):
            shares = windows(rounds, ranks)
            assert sum(shares.values()) == pytest.approx(1.0)
            assert min(shares.values()) > 0.0
            assert {1, rounds} <= shares.keys()
            assert max(shares) == rounds


def test_p_values_are_calibrated_under_student():
    """The smallest p over the windows, adjusted, is below u with a probability of at most about u."""
    times = simulate(np.random.default_rng(5), 4000, 3, 9, 0.2)
    p = weigh(times).p
    for u in (0.01, 0.05):
        assert (p < u).mean() <= 1.25 * u


# Records in, verdict out


def history(ranks, rounds, seconds, seed=0, cv=0.05, rows=None, extra=None):
    """Return records whose E-step takes ``seconds(rank, round)`` per 1000 rows, with jitter."""
    rng = np.random.default_rng(seed)
    rows = rows or [1000] * ranks
    return [
        RankRecord(
            rank, t, seconds(rank, t) * rows[rank] / 1000 * math.exp(sigma(cv) * rng.standard_normal()),
            n_obs=rows[rank], extra=extra(rank, t) if extra else {},
        )
        for t in range(rounds)
        for rank in range(ranks)
    ]  # fmt: skip


def test_two_ranks_where_the_median_test_is_blind():
    records = history(2, 12, lambda rank, t: 2.0 if rank == 1 and t >= 8 else 1.0)
    assert detect_stragglers(records).slow_ranks == ()
    found = diagnose(records)
    assert found.slow_ranks == (1,)
    assert found.since == {1: 8}
    assert found.speeds[1] == pytest.approx(0.5, rel=0.1)
    assert found.speeds[0] == pytest.approx(1.0)
    assert found
    assert "Rank 1 (2.1× since round 8)" in found.render()


def test_half_of_the_ranks_slow():
    records = history(8, 12, lambda rank, t: 1.5 if rank % 2 and t >= 6 else 1.0)
    assert detect_stragglers(records).slow_ranks == ()
    assert diagnose(records).slow_ranks == (1, 3, 5, 7)


def test_ranks_that_fell_behind_at_different_times_and_one_that_recovered():
    def seconds(rank, t):
        return 2.0 if (rank == 0 and t >= 10) or (rank == 1 and t >= 20) or (rank == 2 and 8 <= t < 16) else 1.0

    found = diagnose(history(5, 30, seconds))
    assert found.slow_ranks == (0, 1)
    assert found.since == {0: 10, 1: 20}


def test_slow_from_the_start():
    found = diagnose(history(4, 10, lambda rank, t: 1.7 if rank == 2 else 1.0))
    assert found.slow_ranks == (2,)
    assert found.since == {2: 0}


def test_large_shards_are_not_slow_ranks():
    records = history(4, 12, lambda rank, t: 1.0, rows=[1000, 1000, 1000, 8000])
    assert detect_stragglers(records).slow_ranks == (3,)
    found = diagnose(records)
    assert not found
    assert "rank 3 has 2.9 times the mean work" in found.cause
    assert "several shards per worker" in found.advice


def test_small_factor_takes_some_rounds():
    records = history(8, 40, lambda rank, t: 1.1 if rank == 3 and t >= 10 else 1.0)
    named = [t for t in range(10, 40) if diagnose([r for r in records if r.round <= t]).slow_ranks == (3,)]
    assert 12 <= named[0] <= 10 + allowed(0.05, 1.1)
    assert named[-1] == 39


def test_round_that_is_slow_for_all_is_held_against_none():
    for ranks in (2, 3, 8):
        records = history(ranks, 14, lambda rank, t: 3.0 if t >= 10 else 1.0)
        assert [diagnose([r for r in records if r.round <= t]).slow_ranks for t in range(6, 14)] == [()] * 8


def test_common_noise_of_the_rounds_is_held_against_none_and_hides_none():
    common = np.exp(0.4 * np.random.default_rng(2).standard_normal(40))
    healthy = history(4, 40, lambda rank, t: common[t])
    assert all(not diagnose([r for r in healthy if r.round <= t]) for t in range(8, 40, 3))
    assert diagnose(history(4, 40, lambda rank, t: common[t] * (1.5 if rank == 1 and t > 30 else 1))).slow_ranks == (1,)


def test_flops_go_before_rows():
    records = history(3, 10, lambda rank, t: 1.0 + rank, extra=lambda rank, t: {"flops": 1e6 * (1 + rank)})
    assert not diagnose(records)
    assert diagnose(records).unit == "flops"


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (lambda slow: {"cpu_seconds": 0.4 if slow else 0.99}, "waits for a core"),
        (lambda slow: {"cpu_seconds": 1.9 if slow else 0.99}, "computes all the time"),
        (lambda slow: {"throttled_seconds": 0.9 if slow else 0.0}, "cgroup throttling"),
        (lambda slow: {"major_faults": 500 if slow else 0}, "page faults"),
        (lambda slow: {"cpu_seconds": 1.9 if slow else 0.99, "host": "old" if slow else "new"}, "run on old"),
        (lambda slow: {}, "cause is open"),
    ],
)
def test_causes(facts, word):
    found = diagnose(
        history(
            4, 12, lambda rank, t: 2.0 if rank > 1 and t >= 8 else 1.0, extra=lambda rank, t: facts(rank > 1 and t >= 8)
        )
        if word != "run on old"
        else history(4, 12, lambda rank, t: 2.0 if rank > 1 else 1.0, extra=lambda rank, t: facts(rank > 1))
    )
    assert found.slow_ranks == (2, 3)
    assert word in found.causes[2]
    assert word in found.cause
    assert found.advice != "Nothing to do."


def test_nothing_to_say_is_said():
    assert diagnose([]).cause == "There are no records."
    assert "one rank" in diagnose([RankRecord(0, 0, 1.0)]).cause
    assert "Both ranks keep pace so far (2 of 6" in diagnose(history(2, 2, lambda rank, t: 1.0)).headline()
    assert diagnose(history(5, 10, lambda rank, t: 1.0)).headline() == "All 5 ranks keep pace."
    json.dumps(diagnose([]).as_dict(), allow_nan=False)


@pytest.mark.filterwarnings("error")
def test_zero_seconds_missing_ranks_and_equal_times():
    zero = [RankRecord(r, t, 0.0, n_obs=0) for r in range(3) for t in range(8)]
    assert diagnose(zero).slow_ranks == ()
    same = [RankRecord(r, t, 1.0, n_obs=10) for r in range(3) for t in range(8)]
    assert diagnose(same).slow_ranks == ()
    assert diagnose([*same, RankRecord(1, 8, 2.0, n_obs=10), RankRecord(0, 8, 1.0, n_obs=10)]).slow_ranks == (1,)
    gaps = [r for r in history(6, 20, lambda rank, t: 3.0 if rank == 5 and t > 9 else 1.0) if (r.rank + r.round) % 3]
    assert diagnose(gaps).slow_ranks == (5,)
    late = history(3, 20, lambda rank, t: 1.0) + [RankRecord(7, t, 1.0, n_obs=1000) for t in range(17, 20)]
    assert diagnose(late).slow_ranks == ()
    json.dumps(diagnose(zero).as_dict(), allow_nan=False)


def test_order_of_records_and_second_records_do_not_matter():
    records = history(4, 12, lambda rank, t: 2.0 if rank == 1 and t >= 8 else 1.0)
    split = [RankRecord(r.rank, r.round, r.e_step_seconds / 2, n_obs=r.n_obs // 2) for r in records for _ in range(2)]
    assert diagnose(records[::-1]) == diagnose(records)
    assert diagnose(split) == diagnose(records)
