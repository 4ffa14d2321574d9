"""How strong the evidence is, at the last round, that a rank needs more time per unit of work than the others.

The arrays hold logarithms of seconds per unit of work, so that a factor is a shift and jitter has one scale. For
windows of the last 1, 2, 3, ... rounds a rank's mean is compared, by Student's t, with a reference of
everything that tells how fast it should be: its own rounds before the window, and all rounds of the ranks that are
not under suspicion themselves, the rank's own window left out. A short window names a large factor at once, a long one
a small factor in time: the window-limited likelihood ratio scheme of Lai (1998), "Information bounds and quick
detection of parameter changes in stochastic systems", IEEE Trans. Inform. Theory 44, with the studentised statistic for
an unknown baseline of Siegmund and Venkatraman (1995), Ann. Statist. 23. Each t is exact for independent normal log
times, so that the levels of the windows add up to a bound on the rate of false verdicts in each round.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["HISTORY", "Evidence", "level", "onset", "weigh", "windows"]

#: A factor below this is not worth a verdict, whatever its significance.
LEAST_RATIO = 1.05
#: Jitter of the log times is taken to be at least this, so that a clock's granularity proves nothing.
LEAST_SIGMA = 0.01
#: A rank this many standard errors above the fast half of the ranks is kept out of the others' reference.
SUSPICION = 3.0
#: The mean of the lower half of a normal sample lies this many standard deviations below that of the whole.
HALF = 0.8
#: A common shift of the other ranks, or an effect of the rounds, this significant makes the comparison round by round.
COMMON = 0.001
#: Share of the excess that the younger half of a window must show.
LASTING = 1.0 / 3.0
#: Rounds of history, and what each of them may spend on false verdicts per rank.
HISTORY, EARLY = 6, 5e-6
#: What the rounds after the history may spend, one after the other and the last for all that follow, by the least
#: number of ranks: at first as much as the history did not spend, since the jitter is least known then.
AFTER = {
    2: (4.6e-4, 0.4e-4, 1.2e-4, 3.1e-4, 1.02e-4),
    3: (4e-4, 0.5e-4, 1.2e-4, 1.6e-4, 0.9e-4),
    5: (4e-4, 0.7e-4, 0.7e-4, 0.7e-4, 0.6e-4),
    8: (3e-4, 1e-4, 0.5e-4),
}


class _Shares(NamedTuple):
    """How a round's level is shared out; the rest goes to the window that begins with the end of the history."""

    newest: float
    others: float
    deep: float


#: The last round; all windows that are shorter than all since the history, together; those that reach into the history.
PAIR, FLEET = _Shares(0.1, 0.05, 0.01), _Shares(0.2, 0.2, 0.1)


class Evidence(NamedTuple):
    """What the last round says of each rank (arrays of shape (..., P)).

    Attributes
    ----------
    p : ndarray of float64
        Smallest p-value over the windows, each divided by the window's share of the level; 1 without data.
    window : ndarray of int64
        Rounds of that window.
    excess : ndarray of float64
        Logarithm of the factor by which the rank is slower than its reference in that window; NaN without data.
    """

    p: np.ndarray
    window: np.ndarray
    excess: np.ndarray


class _Sums(NamedTuple):
    """Counts, sums and sums of squares of log times."""

    n: Any
    s: Any
    q: Any

    def __add__(self, other: Any) -> _Sums:
        return _Sums(self.n + other.n, self.s + other.s, self.q + other.q)

    def __sub__(self, other: Any) -> _Sums:
        return _Sums(self.n - other.n, self.s - other.s, self.q - other.q)

    def where(self, mask: np.ndarray) -> _Sums:
        return _Sums(*(np.where(mask, part, 0.0) for part in self))

    def total(self) -> _Sums:
        return _Sums(*(part.sum(axis=-1, keepdims=True) for part in self))

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.s / np.maximum(self.n, 1.0))

    @property
    def scatter(self) -> np.ndarray:
        return np.asarray(np.maximum(self.q - self.s * self.mean, 0.0))

    @property
    def share(self) -> np.ndarray:
        """Variance of the mean in units of the variance of one log time."""
        return np.asarray(1.0 / np.maximum(self.n, 1.0))


def _sums(times: np.ndarray) -> _Sums:
    known = np.isfinite(times)
    filled = np.where(known, times, 0.0)
    return _Sums(known.sum(axis=-1).astype(float), filled.sum(axis=-1), (filled * filled).sum(axis=-1))


def windows(rounds: int, ranks: int = 64) -> dict[int, float]:
    """Return the lengths of the windows that end at the last of `rounds` rounds, and their shares of the level.

    A change right after the history has the least to be compared with, so that its window, of all rounds since, gets
    most. Two ranks have nothing to spare for others.

    Examples
    --------
    >>> list(windows(14))
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14]
    >>> round(sum(windows(14).values()), 12), round(windows(14)[8], 12)
    (1.0, 0.5)
    """
    lengths, step = [1, 2, 3], 1
    while lengths[-1] < rounds:
        lengths += [lengths[-1] + step * (i + 1) for i in range(4)]
        step *= 2
    since, given = rounds - HISTORY, PAIR if ranks <= 2 else FLEET
    recent = [length for length in lengths if length < since]
    deep = [length for length in lengths if max(since, 0) < length < rounds] + [rounds]
    if since < 1:
        return dict.fromkeys(deep, 1.0 / len(deep))
    shares = dict.fromkeys(recent, given.others / max(len(recent) - 1, 1))
    shares |= {1: given.newest, since: 0.0} | dict.fromkeys(deep, given.deep / len(deep))
    shares[since] += 1.0 - sum(shares.values())
    return dict(sorted(shares.items()))


def level(rounds: int, ranks: int = 64) -> float:
    """Return the level of the verdict at the last of `rounds` rounds: the rate of false verdicts per rank.

    What the history does not spend goes to the rounds after it; the levels up to any round sum to about 1e-4 per round
    at most. Few ranks spend all of it, since one other rank and a short history tell little of what is normal.

    Examples
    --------
    >>> max(sum(level(t + 1, 2) for t in range(rounds)) / rounds for rounds in range(1, 500)) < 1.05e-4
    True
    """
    if rounds <= HISTORY:
        return EARLY
    after = AFTER[max((least for least in AFTER if least <= ranks), default=2)]
    return after[min(rounds - HISTORY, len(after)) - 1]


def _jitter(times: np.ndarray) -> np.ndarray:
    """Return a standard deviation that neither slow ranks nor changes move: from differences of successive rounds."""
    if times.shape[-1] < 2:
        return np.full((*times.shape[:-2], 1), np.inf)
    steps = np.abs(np.diff(times, axis=-1)).reshape(*times.shape[:-2], -1)
    known = np.isfinite(steps)
    ordered = np.sort(np.where(known, steps, np.inf), axis=-1)
    middle = np.take_along_axis(ordered, np.maximum(known.sum(axis=-1, keepdims=True) - 1, 0) // 2, -1)
    return np.asarray(np.maximum(LEAST_SIGMA, middle / (0.6745 * np.sqrt(2.0))))


def _unsuspected(window: _Sums, sigma: np.ndarray) -> np.ndarray:
    """Return which ranks may serve the others as a reference: the fast half, and all that lie near it."""
    there = window.n > 0
    means = np.sort(np.where(there, window.mean, np.inf), axis=-1)
    half = (there.sum(axis=-1, keepdims=True) + 1) // 2
    fast = np.arange(means.shape[-1]) < half
    edge = np.max(np.where(fast, means, -np.inf), axis=-1, keepdims=True)
    middle = np.where(fast, means, 0.0).sum(axis=-1, keepdims=True) / np.maximum(half, 1)
    reach = middle + (SUSPICION + HALF) * sigma * np.sqrt(window.share)
    return np.asarray(there & (window.mean <= np.maximum(reach, edge)))


def _common(past: np.ndarray) -> np.ndarray:
    """Return whether rounds have effects that all ranks share, by the F test of a two-way layout."""
    known = np.isfinite(past).all(axis=-2, keepdims=True)
    ranks, rounds = past.shape[-2], known.sum(axis=-1, keepdims=True)
    if ranks < 2:
        return np.zeros((*past.shape[:-2], 1), dtype=bool)
    from scipy.special import fdtrc

    size = np.maximum(rounds, 1)
    filled = np.where(known, past, 0.0)
    means = filled.mean(axis=-2, keepdims=True)
    own = filled.sum(axis=-1, keepdims=True) / size
    middle = own.mean(axis=-2, keepdims=True)
    rest = np.where(known, filled - means - own + middle, 0.0)
    free = np.maximum(size - 1.0, 1.0)[..., 0]
    between = ranks * (np.where(known, means - middle, 0.0) ** 2).sum(axis=(-2, -1))[..., None] / free
    within = (rest**2).sum(axis=(-2, -1))[..., None] / (free * (ranks - 1))
    p = fdtrc(free, free * (ranks - 1), between / np.maximum(within, LEAST_SIGMA**2))
    return np.asarray((p < COMMON) & (rounds[..., 0] >= 3))


def _student(ratio: np.ndarray, freedom: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Return one-sided p-values; 1 where there is nothing to tell."""
    from scipy.special import stdtr

    usable = usable & (freedom >= 1)
    return np.where(usable, stdtr(np.where(usable, freedom, 1.0), np.where(usable, -ratio, 0.0)), 1.0)


def _within(window: _Sums, past: _Sums, suspected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the other suspected ranks tell of the jitter: scatter about their own means, degrees of freedom."""
    scatter = np.where(suspected, window.scatter + past.scatter, 0.0)
    free = np.where(suspected, np.maximum(window.n - 1.0, 0.0) + np.maximum(past.n - 1.0, 0.0), 0.0)
    return scatter.sum(axis=-1, keepdims=True) - scatter, free.sum(axis=-1, keepdims=True) - free


def _pooled(window: _Sums, past: _Sums, clean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare with own past and all rounds of the others: return p, excess, and whether the others have shifted."""
    trusted = window.where(clean)
    reference = (trusted + past.where(clean)).total() - trusted + past.where(~clean)
    spread, free = _within(window, past, ~clean)
    freedom = reference.n + window.n - 2.0 + free
    scatter = (reference.scatter + window.scatter + spread) / np.maximum(freedom, 1.0)
    sigma = np.sqrt(np.maximum(scatter, LEAST_SIGMA**2))
    excess = window.mean - reference.mean
    ratio = excess / (sigma * np.sqrt(window.share + reference.share))
    now, then = trusted.total() - trusted, past.where(clean).total() - past.where(clean)
    shift = np.abs(now.mean - then.mean) / (sigma * np.sqrt(now.share + then.share))
    shifted = _student(shift, freedom, (now.n > 0) & (then.n > 0)) < COMMON
    return _student(ratio, freedom, (window.n > 0) & (reference.n > 0)), excess, shifted


def _lasting(window: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """Return whether the younger half of a window still shows a good part of its excess: a rank may have recovered."""
    recent = _sums(window[..., window.shape[-1] // 2 :])
    whole = _sums(window)
    return np.asarray((recent.n == 0) | (recent.mean - whole.mean + excess >= LASTING * excess))


def _paired(times: np.ndarray, before: int, clean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare with the others round by round, which takes out whatever a round does to all: return p and excess."""
    known = np.isfinite(times) & clean[..., None]
    filled = np.where(known, times, 0.0)
    count = known.sum(axis=-2, keepdims=True) - known
    total = filled.sum(axis=-2, keepdims=True) - filled
    gaps = np.where(count > 0, times - total / np.maximum(count, 1), np.nan)
    window, past = _sums(gaps[..., before:]), _sums(gaps[..., :before])
    lasting = _lasting(gaps[..., before:], window.mean)
    freedom = window.n - 1.0 + past.n
    sigma = np.sqrt(np.maximum((window.scatter + past.q) / np.maximum(freedom, 1.0), 2.0 * LEAST_SIGMA**2))
    return _student(window.mean / (sigma * np.sqrt(window.share)), freedom, (window.n > 0) & lasting), window.mean


def weigh(times: np.ndarray) -> Evidence:
    """Weigh the evidence at the last round.

    Parameters
    ----------
    times : ndarray of float64, shape (..., P, T)
        Logarithms of seconds per unit of work of P ranks in T rounds; NaN where there is no record.

    Returns
    -------
    Evidence

    Examples
    --------
    >>> times = np.linspace(-0.05, 0.05, 32).reshape(8, 4).T + np.zeros((4, 8))
    >>> times[2, 7] += np.log(2)
    >>> found = weigh(times)
    >>> np.flatnonzero(found.p < level(8)).tolist(), found.window[2].item()
    ([2], 1)
    """
    rounds = times.shape[-1]
    sigma, whole = _jitter(times), _sums(times)
    shape = times.shape[:-1]
    best = Evidence(np.ones(shape), np.ones(shape, dtype=np.int64), np.full(shape, np.nan))
    for length, share in windows(rounds, times.shape[-2]).items():
        before = rounds - length
        window = _sums(times[..., before:])
        clean = _unsuspected(window, sigma)
        p, excess, shifted = _pooled(window, whole - window, clean)
        p = np.where(_lasting(times[..., before:], excess), p, 1.0)
        apart = shifted | _common(times[..., :before])
        if apart.any():
            paired_p, paired_excess = _paired(times, before, clean)
            p, excess = np.where(apart, paired_p, p), np.where(apart, paired_excess, excess)
        p = np.minimum(np.where(excess >= np.log(LEAST_RATIO), p, 1.0) / share, 1.0)
        better = (window.n > 0) & ((p < best.p) | np.isnan(best.excess))
        best = Evidence(
            np.where(better, p, best.p),
            np.where(better, length, best.window),
            np.where(better, excess, best.excess),
        )
    return best


def onset(times: np.ndarray, guess: int) -> int:
    """Return the position at which the log times of a slow rank most likely rose, by least squares.

    Parameters
    ----------
    times : ndarray of float64, shape (T,)
        Of one rank, relative to the ranks that are not slow; NaN where there is no record.
    guess : int
        Start of the window that shows it; 0 says that the rank may have been slow from the start.

    Examples
    --------
    >>> onset(np.array([0.0, 0.1, 0.0, 0.7, 0.8, 0.7]), 2)
    3
    """
    known = np.flatnonzero(np.isfinite(times))
    values = times[known]
    if len(values) < 2:
        return guess
    after = np.arange(len(values) - 1, 0, -1)
    late = np.cumsum(values[::-1])[::-1][1:]
    rise = late / after - (values.sum() - late) / (len(values) - after)
    gain = np.where(rise > 0.0, after * (len(values) - after) / len(values) * rise**2, 0.0)
    best = int(gain.argmax())
    left = max(float(((values - values.mean()) ** 2).sum() - gain[best]) / max(len(values) - 2, 1), LEAST_SIGMA**2)
    if guess == 0 and gain[best] < 12.0 * left:
        return 0
    return int(known[best + 1])
