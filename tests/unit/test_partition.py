"""The optimal contiguous partition against brute force, and the split of equal units."""

import random
import time
from itertools import combinations_with_replacement, pairwise

import pytest

from mixle.utils.parallel.planning.partition import partition, share


def peak(edges, works, speeds):
    prefix = [0.0]
    for work in works:
        prefix.append(prefix[-1] + work)
    return max((prefix[b] - prefix[a]) / s for (a, b), s in zip(pairwise(edges), speeds, strict=True))


def brute(works, speeds):
    n, w = len(works), len(speeds)
    return min(peak([0, *cuts, n], works, speeds) for cuts in combinations_with_replacement(range(n + 1), w - 1))


def valid(edges, works, speeds):
    return edges[0] == 0 and edges[-1] == len(works) and len(edges) == len(speeds) + 1 and edges == sorted(edges)


def instance(rng):
    n, w = rng.randint(0, 7), rng.randint(1, 4)
    kind = rng.randrange(4)
    works = {
        0: lambda: [float(rng.randint(0, 9)) for _ in range(n)],
        1: lambda: [rng.random() * 10 ** rng.randint(-6, 6) for _ in range(n)],
        2: lambda: [1.0] * n,
        3: lambda: [rng.choice([0.0, 1e-9, 1.0, 1e9]) for _ in range(n)],
    }[kind]()
    speeds = [rng.choice([1.0, 2.0, 4.0, 0.1, rng.random() + 1e-3]) for _ in range(w)]
    return works, speeds


def test_equal_to_brute_force_on_ten_thousand_instances():
    rng = random.Random(6)
    for _ in range(10_000):
        works, speeds = instance(rng)
        edges = partition(works, speeds)
        assert valid(edges, works, speeds), (works, speeds, edges)
        assert peak(edges, works, speeds) == brute(works, speeds), (works, speeds, edges)


def test_equal_units_are_shared_as_well_as_brute_force_can():
    rng = random.Random(7)
    for _ in range(2_000):
        total, speeds = (
            rng.randint(0, 8),
            [rng.choice([1.0, 3.0, 0.2, rng.random() + 0.01]) for _ in range(rng.randint(1, 4))],
        )
        counts = share(speeds, total)
        assert sum(counts) == total
        best = brute([1.0] * total, speeds)
        assert max(c / s for c, s in zip(counts, speeds, strict=True)) == best, (total, speeds, counts)


def test_shares_are_the_documented_ones_where_these_are_optimal():
    assert share([1.0, 3.0], 5) == [1, 4]
    assert share([1.0, 1.0, 1.0], 5) == [2, 2, 1]
    assert share([1.0, 3.0], 2) == [0, 2]  # one each would take 1.5 times as long


def test_least_and_most_are_kept():
    assert share([100.0, 1.0, 1.0], 5, least=1) == [3, 1, 1]
    assert share([1.0, 1.0], 10, most=[2, 100]) == [2, 8]
    assert share([1.0, 1.0], 10, most=[2, 3]) == [5, 5]  # they cannot take it all: the plan will say so
    with pytest.raises(ValueError, match="at least 3 each"):
        share([1.0, 1.0], 5, least=3)


def test_cuts_lie_near_the_proportional_ones():
    assert partition([1.0] * 5, [1.0] * 4) in ([0, 1, 3, 4, 5], [0, 1, 2, 4, 5], [0, 2, 3, 4, 5], [0, 1, 2, 3, 5])
    assert partition([1.0] * 8, [1.0, 3.0]) == [0, 2, 8]


@pytest.mark.parametrize(
    ("works", "speeds"),
    [([1.0], []), ([-1.0], [1.0]), ([float("inf")], [1.0]), ([1.0], [0.0]), ([1.0], [float("nan")])],
)
def test_what_is_no_instance_is_refused(works, speeds):
    with pytest.raises(ValueError, match=r"worker|works"):
        partition(works, speeds)


def test_ten_thousand_units_over_sixty_four_workers_take_few_probes(monkeypatch):
    rng = random.Random(8)
    works, speeds = [rng.random() for _ in range(10_000)], [rng.choice([1.0, 2.0, 4.0]) for _ in range(64)]
    from mixle.utils.parallel.planning import partition as module

    probes = []
    probe = module._Line.probe
    monkeypatch.setattr(module._Line, "probe", lambda self, bound: probes.append(bound) or probe(self, bound))
    before = time.thread_time()
    edges = partition(works, speeds)
    print(f"{len(probes)} probes, {time.thread_time() - before:.4f} s")
    assert valid(edges, works, speeds)
    assert len(probes) < 120
