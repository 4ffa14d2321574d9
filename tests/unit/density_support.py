"""Rules of integration: rows and their weights, so that a law's densities on the rows have the weighted sum 1.

A rule of a countable set has weights of 1, one of a line the weights of double-exponential quadrature; rules are
joined and multiplied as the sets are.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

INF = math.inf


class Rule(NamedTuple):
    """Rows, and the weight of each."""

    rows: list
    weights: list

    def of(self, build, slope=lambda _: 1.0):
        """Return the rule of the images of the rows under a function whose volume grows by `slope`."""
        return Rule([build(row) for row in self.rows], [w * slope(r) for r, w in zip(*self, strict=True)])


def total(law, rule):
    """Return the integral of the law's density."""
    if hasattr(law, "seq_log_density"):
        scores = law.seq_log_density(law.dist_to_encoder().seq_encode(rule.rows))
    else:
        scores = [law.log_density(row) for row in rule.rows]
    return math.fsum((np.exp(scores) * np.asarray(rule.weights)).tolist())


def listed(rows):
    """Return the rule of a countable set: what is not listed is taken to have no probability."""
    rows = list(rows)
    return Rule(rows, [1.0] * len(rows))


def either(*rules):
    """Return the rule of the union of sets that share no row."""
    return Rule([r for rule in rules for r in rule.rows], [w for rule in rules for w in rule.weights])


def product(*rules):
    """Return the rule of the tuples of one row each."""
    rows = list(itertools.product(*(rule.rows for rule in rules)))
    return Rule(rows, [math.prod(w) for w in itertools.product(*(rule.weights for rule in rules))])


def sequences(rule, *lengths):
    """Return the rule of the lists of these lengths."""
    return either(*(product(*[rule] * length).of(list) for length in lengths))


def bags(labels, *totals):
    """Return the rule of the bags, pairs (label, count), of these numbers of labels."""
    drawn = (bag for n in totals for bag in itertools.combinations_with_replacement(labels, n))
    return listed([(label, bag.count(label)) for label in labels if label in bag] for bag in drawn)


def line(*ends, step=1 / 20):
    """Return the double-exponential rule of the intervals between `ends` (H. Takahasi, M. Mori, 1974)."""
    return either(*(_piece(low, high, step) for low, high in itertools.pairwise(ends)))


def _piece(low, high, step):
    if math.isinf(low) or math.isinf(high):
        t = np.arange(-4.5, 4.5, step)
        away = np.exp(0.5 * math.pi * np.sinh(t))
        rows = low + away if math.isinf(high) else high - away
        return Rule(rows.tolist(), (step * away * 0.5 * math.pi * np.cosh(t)).tolist())
    t = np.arange(-4.0, 4.0 + step, step)
    s = 0.5 * math.pi * np.sinh(t)
    rows = np.where(t < 0, low + (high - low) / (1 + np.exp(-2 * s)), high - (high - low) / (1 + np.exp(2 * s)))
    weights = step * 0.25 * math.pi * (high - low) * np.cosh(t) / np.square(np.cosh(s))
    return Rule(rows.tolist(), weights.tolist())


def circle(points=96):
    """Return the rule of the unit circle, whose trapezoids are exact to the order of their number."""
    angles = 2 * math.pi * np.arange(points) / points
    return Rule(np.column_stack([np.cos(angles), np.sin(angles)]).tolist(), [2 * math.pi / points] * points)


def sphere(points=40):
    """Return the rule of the unit sphere: Gauss and Legendre's of the height, trapezoids around."""
    heights, weights = np.polynomial.legendre.leggauss(points)
    flat = product(Rule(heights.tolist(), weights.tolist()), circle(points))
    return flat.of(lambda row: [*(math.sqrt(1 - row[0] ** 2) * x for x in row[1]), row[0]])


def space(centre, directions, step=1 / 20):
    """Return the rule of all vectors, by their distance from a centre and direction."""
    polar, d = product(line(0.0, INF, step=step), directions), len(centre)
    return polar.of(
        lambda row: [c + row[0] * x for c, x in zip(centre, row[1], strict=True)], lambda row: row[0] ** (d - 1)
    )


def shares(*, step=1 / 10):
    """Return the rule of three shares, over the first two of them."""
    pairs = product(line(0.0, 1.0, step=step), line(0.0, 1.0, step=step))
    return pairs.of(lambda row: _shares(*row), lambda row: 1.0 - row[0])


def _shares(one, other):
    rest = [one, (1.0 - one) * other, (1.0 - one) * (1.0 - other)]
    return [x / math.fsum(rest) for x in rest]
