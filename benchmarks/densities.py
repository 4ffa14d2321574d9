"""Draw every family: ``python benchmarks/densities.py`` writes docs/pictures/*.svg.

Colours are readable on white and on black, and nothing is filled behind them.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

import mixle.stats as st

HERE = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLOURS = ("#3b82c4", "#d9772b")
GREY, AXIS = "#7d858d", "#9aa0a6"
WIDTH, HEIGHT, COLUMNS, PAD = 178, 118, 4, 14
GRID = 160


def scores(dist: Any, rows: Any) -> np.ndarray:
    """Return the densities of rows."""
    return np.exp(dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows)))


def place(x: float, y: float, low: float, high: float, top: float) -> tuple[float, float]:
    """Return where (x, y) lies in a panel."""
    inner, base = WIDTH - 2 * PAD, HEIGHT - 34
    return round(PAD + (x - low) / (high - low) * inner, 1), round(24 + base * (1.0 - min(y / top, 1.0)), 1)


def end(x: float) -> str:
    """Return the end of an axis as text."""
    return f"{x:g}" if abs(x) != np.pi else "π" if x > 0 else "−π"


def axis(low: float, high: float) -> list[str]:
    """Return the line below a panel with both of its ends."""
    y = HEIGHT - 10
    return [
        f'<line x1="{PAD}" y1="{y}" x2="{WIDTH - PAD}" y2="{y}" stroke="{AXIS}"/>',
        f'<text x="{PAD}" y="{y + 11}" font-size="9">{end(low)}</text>',
        f'<text x="{WIDTH - PAD}" y="{y + 11}" font-size="9" text-anchor="end">{end(high)}</text>',
    ]


def curve(low: float, high: float, *dists: Any) -> list[str]:
    """Draw densities of numbers."""
    x = np.linspace(low, high, GRID + 1)[1:-1]
    found = [scores(dist, x) for dist in dists]
    top = 1.05 * max(float(y.max()) for y in found)
    parts = axis(low, high)
    for y, colour in zip(found, COLOURS, strict=False):
        points = " ".join("{},{}".format(*place(a, b, low, high, top)) for a, b in zip(x, y, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return parts


def bars(low: int, high: int, *dists: Any) -> list[str]:
    """Draw probabilities of whole numbers."""
    return heights([scores(dist, list(range(low, high + 1))) for dist in dists]) + axis(low, high)


def heights(found: list[np.ndarray], names: tuple[str, ...] = ()) -> list[str]:
    """Draw bars, those of the second law beside those of the first."""
    count, top, parts = len(found[0]), 1.1 * max(float(y.max()) for y in found), []
    slot = (WIDTH - 2 * PAD) / count
    wide = slot * 0.8 / len(found)
    for k, (y, colour) in enumerate(zip(found, COLOURS, strict=False)):
        for i, value in enumerate(y.tolist()):
            tall = (HEIGHT - 34) * value / top
            x = PAD + i * slot + 0.1 * slot + k * wide
            shape = f'x="{x:.1f}" y="{HEIGHT - 10 - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect {shape} fill="{colour}"/>')
    for i, name in enumerate(names):
        x = PAD + (i + 0.5) * slot
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT}" font-size="9" text-anchor="middle">{name}</text>')
    return parts


def labels(names: tuple[str, ...], *rows_and_laws: tuple[list[Any], Any]) -> list[str]:
    """Draw probabilities of labelled rows."""
    return heights([scores(law, rows) for rows, law in rows_and_laws], names)


def dots(points: np.ndarray, low: float, high: float, colour: str = COLOURS[0]) -> list[str]:
    """Draw rows of two numbers."""
    found = []
    for a, b in points[((points >= low) & (points <= high)).all(axis=1)]:
        x, y = place(float(a), float(b) - low, low, high, high - low)
        found.append(f'<circle cx="{x}" cy="{y}" r="1.5" fill="{colour}" fill-opacity="0.65"/>')
    return found


def plane(*dists: Any) -> list[str]:
    """Draw rows of laws in the plane."""
    drawn = [np.asarray(dist.sampler(3).sample(140)) for dist in dists]
    return [part for rows, colour in zip(drawn, COLOURS, strict=False) for part in dots(rows, -6.0, 6.0, colour)]


def simplex(shares: np.ndarray) -> np.ndarray:
    """Return three shares as a point of a triangle in the unit square."""
    return shares @ np.array([[0.1, 0.05], [0.9, 0.05], [0.5, 0.98]])


def triangle(*dists: Any) -> list[str]:
    """Draw rows of three shares."""
    corners = [place(float(a), float(b), 0.0, 1.0, 1.0) for a, b in simplex(np.eye(3))]
    points = " ".join(f"{x},{y}" for x, y in corners)
    parts = [f'<polygon points="{points}" fill="none" stroke="{AXIS}"/>']
    for dist, colour in zip(dists, COLOURS, strict=False):
        parts += dots(simplex(np.asarray(dist.sampler(3).sample(140))), 0.0, 1.0, colour)
    return parts


def circle(*dists: Any) -> list[str]:
    """Draw laws of directions in the plane: the farther out, the likelier."""
    angle = np.linspace(-np.pi, np.pi, 121)
    ways = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x0, y0, radius = WIDTH / 2, 64.0, 24.0
    parts = [f'<circle cx="{x0}" cy="{y0}" r="{radius}" fill="none" stroke="{AXIS}"/>']
    for dist, colour in zip(dists, COLOURS, strict=False):
        rings = radius * (1.0 + 0.9 * scores(dist, ways / np.linalg.norm(ways, axis=1)[:, None]))
        xy = zip(x0 + rings * ways[:, 0], y0 - rings * ways[:, 1], strict=True)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in xy)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return parts


def subsets(names: str) -> list[tuple[Any, ...]]:
    """Return all sets of letters."""
    return [s for n in range(len(names) + 1) for s in itertools.combinations(names, n)]


def bags(total: int, values: Any) -> list[list[tuple[Any, int]]]:
    """Return all bags of two values."""
    return [[(values[0], i), (values[1], total - i)] for i in range(total + 1)]


PAIRS = subsets("abc")
NUMBERED = [tuple("abc".index(x) for x in s) for s in PAIRS]
SETS = tuple("".join(s) or "∅" for s in PAIRS)
WIDE = [[2.0, 1.2], [1.2, 1.5]]
FAIR, BENT = {"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}

#: File -> family -> parts of its picture.
PICTURES: dict[str, dict[str, list[str]]] = {
    "numbers": {
        "Gaussian": curve(-6, 6, st.GaussianDistribution(-1.0, 1.0), st.GaussianDistribution(1.0, 4.0)),
        "StudentT": curve(-6, 6, st.StudentTDistribution(1.0, -1.0), st.StudentTDistribution(4.0, 1.0, 1.5)),
        "Laplace": curve(-6, 6, st.LaplaceDistribution(-1.0, 0.8), st.LaplaceDistribution(1.0, 2.0)),
        "Logistic": curve(-6, 6, st.LogisticDistribution(-1.0, 0.6), st.LogisticDistribution(1.0, 1.2)),
        "SkewNormal": curve(
            -6, 6, st.SkewNormalDistribution(-2.0, 2.0, 5.0), st.SkewNormalDistribution(3.0, 2.0, -2.0)
        ),
        "Gumbel": curve(-6, 6, st.GumbelDistribution(-2.0, 0.8), st.GumbelDistribution(0.0, 1.5)),
        "Uniform": curve(-6, 6, st.UniformDistribution(-4.0, 0.0), st.UniformDistribution(-2.0, 5.0)),
        "VonMises": curve(-np.pi, np.pi, st.VonMisesDistribution(-1.0, 4.0), st.VonMisesDistribution(1.5, 1.0)),
    },
    "positive": {
        "Exponential": curve(0, 8, st.ExponentialDistribution(1.0), st.ExponentialDistribution(3.0)),
        "Gamma": curve(0, 8, st.GammaDistribution(2.0, 0.6), st.GammaDistribution(5.0, 0.8)),
        "LogGaussian": curve(0, 8, st.LogGaussianDistribution(0.3, 0.25), st.LogGaussianDistribution(1.0, 0.5)),
        "Weibull": curve(0, 8, st.WeibullDistribution(1.5, 1.5), st.WeibullDistribution(4.0, 4.5)),
        "InverseGaussian": curve(
            0, 8, st.InverseGaussianDistribution(1.5, 2.0), st.InverseGaussianDistribution(3.0, 12.0)
        ),
        "InverseGamma": curve(0, 8, st.InverseGammaDistribution(3.0, 2.0), st.InverseGammaDistribution(5.0, 12.0)),
        "Rayleigh": curve(0, 8, st.RayleighDistribution(1.0), st.RayleighDistribution(2.5)),
        "HalfNormal": curve(0, 8, st.HalfNormalDistribution(1.0), st.HalfNormalDistribution(3.0)),
        "Pareto": curve(0, 8, st.ParetoDistribution(1.0, 2.5), st.ParetoDistribution(2.0, 1.2)),
        "Beta": curve(0, 1, st.BetaDistribution(2.0, 6.0), st.BetaDistribution(5.0, 2.0)),
    },
    "counts": {
        "Poisson": bars(0, 16, st.PoissonDistribution(2.0), st.PoissonDistribution(8.0)),
        "NegativeBinomial": bars(
            0, 16, st.NegativeBinomialDistribution(2.0, 0.5), st.NegativeBinomialDistribution(3.0, 0.3)
        ),
        "Geometric": bars(1, 12, st.GeometricDistribution(0.6), st.GeometricDistribution(0.2)),
        "Binomial": bars(0, 10, st.BinomialDistribution(0.2, 10), st.BinomialDistribution(0.7, 10)),
        "IntegerCategorical": bars(
            0, 5, st.IntegerCategoricalDistribution(0, [0.3, 0.1, 0.25, 0.05, 0.1, 0.2]),
            st.IntegerCategoricalDistribution(0, [0.05, 0.4, 0.05, 0.3, 0.15, 0.05]),
        ),
        "DirichletMultinomial": heights([
            scores(st.DirichletMultinomialDistribution(a, 12), [[i, 12 - i] for i in range(13)])
            for a in ([30.0, 20.0], [1.5, 1.0])
        ]) + axis(0, 12),
    },
    "labels": {
        "Bernoulli": labels(
            ("False", "True"), ([False, True], st.BernoulliDistribution(0.2)),
            ([False, True], st.BernoulliDistribution(0.7)),
        ),
        "Categorical": labels(
            ("a", "b", "c"), (list("abc"), st.CategoricalDistribution({"a": 0.6, "b": 0.3, "c": 0.1})),
            (list("abc"), st.CategoricalDistribution({"a": 0.1, "b": 0.4, "c": 0.5})),
        ),
        "PointMass": labels(("on", "off"), (["on", "off"], st.PointMassDistribution("on"))),
        "BernoulliSet": labels(
            SETS, (PAIRS, st.BernoulliSetDistribution({"a": 0.7, "b": 0.5, "c": 0.2})),
            (PAIRS, st.BernoulliSetDistribution({"a": 0.1, "b": 0.6, "c": 0.8})),
        ),
        "IntegerBernoulliSet": labels(
            tuple("".join(map(str, s)) or "∅" for s in NUMBERED),
            (NUMBERED, st.IntegerBernoulliSetDistribution(np.log([0.7, 0.5, 0.2]))),
            (NUMBERED, st.IntegerBernoulliSetDistribution(np.log([0.1, 0.6, 0.8]))),
        ),
        "Multinomial": labels(
            tuple(f"a{i}" if i in {0, 3, 6} else "" for i in range(7)),
            (bags(6, "ab"), st.MultinomialDistribution(st.CategoricalDistribution(FAIR))),
            (bags(6, "ab"), st.MultinomialDistribution(st.CategoricalDistribution(BENT))),
        ),
        "IntegerMultinomial": labels(
            tuple(f"0·{i}" if i in {0, 3, 6} else "" for i in range(7)),
            (bags(6, (0, 1)), st.IntegerMultinomialDistribution(0, [0.5, 0.5])),
            (bags(6, (0, 1)), st.IntegerMultinomialDistribution(0, [0.2, 0.8])),
        ),
    },
    "vectors": {
        "DiagonalGaussian": plane(
            st.DiagonalGaussianDistribution([-2.5, 2.0], [1.0, 0.3]),
            st.DiagonalGaussianDistribution([2.0, -1.5], [0.5, 3.0]),
        ),
        "MultivariateGaussian": plane(
            st.MultivariateGaussianDistribution([-2.0, 2.0], WIDE),
            st.MultivariateGaussianDistribution([2.0, -2.0], [[1.0, -0.8], [-0.8, 1.0]]),
        ),
        "MultivariateStudentT": plane(
            st.MultivariateStudentTDistribution(2.0, [-2.0, 2.0], WIDE),
            st.MultivariateStudentTDistribution(2.0, [2.0, -2.0], [[0.5, -0.4], [-0.4, 0.5]]),
        ),
        "Dirichlet": triangle(st.DirichletDistribution([8.0, 3.0, 3.0]), st.DirichletDistribution([0.7, 3.0, 5.0])),
        "VonMisesFisher": circle(
            st.VonMisesFisherDistribution([1.0, 0.0], 8.0), st.VonMisesFisherDistribution([-0.6, 0.8], 1.5)
        ),
    },
}  # fmt: skip


def drawing(pictures: dict[str, list[str]]) -> str:
    """Return small multiples as SVG."""
    rows = -(-len(pictures) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * (HEIGHT + 10)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="{GREY}">',
        f"<title>Densities of {', '.join(pictures)}, two of each</title>",
    ]
    for i, (name, inner) in enumerate(pictures.items()):
        x, y = i % COLUMNS * WIDTH, i // COLUMNS * (HEIGHT + 10)
        parts += [f'<g transform="translate({x} {y})">', f'<text x="{PAD}" y="14" font-weight="bold">{name}</text>']
        parts += [*inner, "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    for file, pictures in PICTURES.items():
        (HERE / f"{file}.svg").write_text(drawing(pictures), encoding="utf-8")
