"""A fitted mixture in words that a person reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mixle.cli.datasets import Table

__all__ = ["describe"]

PARTS_OF_DAY = {"the morning": range(12), "the afternoon": range(12, 17), "the evening": range(17, 24)}
SEASONS = {"winter": (12, 1, 2), "spring": (3, 4, 5), "summer": (6, 7, 8), "autumn": (9, 10, 11)}
#: A cluster with fewer present values than this share has nothing to say about the field.
PRESENT = 0.05
#: A group of hours or months is worth a word if it is so much more frequent than in all clusters together.
LIFT = 1.25

Names = Mapping[str, str]
Shares = Mapping[Any, float]


def describe(model: Any, table: Table) -> list[str]:
    """Put each cluster of a mixture into one line.

    Parameters
    ----------
    model : MixtureDistribution
        Mixture of composites over the fields of `table`.
    table : Table
        The table that was fitted.

    Returns
    -------
    list of str
        One line for each cluster, the heaviest first. Where a class of the rows is known that was not fitted, each line
        tells what the cluster holds of it.
    """
    weights = [float(weight) for weight in model.w]
    clusters = [dict(zip(table.fields, part.dists, strict=True)) for part in model.components]
    say = _flights(weights, clusters, table.names) if table.noun == "flights" else _penguin
    held, sizes = _held(model, table), _adding_up(weights)
    lines = []
    for rank, i in enumerate(sorted(range(len(weights)), key=lambda i: -weights[i]), start=1):
        words = ", ".join(text for text in say(clusters[i]) if text)
        lines.append(f"Cluster {rank} · {sizes[i]} of {table.noun} · {words}{held[i]}")
    if table.known:
        lines.append("The species were not fitted: they show, as a check, what the clusters found.")
    return lines


def _held(model: Any, table: Table) -> list[str]:
    """Count the known classes of the rows that each cluster explains best."""
    if not table.known:
        return [""] * len(model.w)
    from mixle.stats import seq_encode

    ((_, payload),) = seq_encode(table.rows, model=model)
    best = model.seq_posterior(payload).argmax(axis=1).tolist()
    texts = []
    for i in range(len(model.w)):
        counts = Counter(name for name, k in zip(table.known, best, strict=True) if k == i)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        texts.append(f" · holds {', '.join(f'{count} {name}' for name, count in ranked) or 'none'}")
    return texts


def _adding_up(shares: list[float]) -> list[str]:
    """Return shares that sum to 1 as percentages whose printed numbers sum to 100, with a decimal if one is small.

    Examples
    --------
    >>> _adding_up([0.335, 0.335, 0.33])
    ['34 %', '33 %', '33 %']
    >>> _adding_up([0.4, 0.596, 0.004])
    ['40.0 %', '59.6 %', '0.4 %']
    """
    digits = 1 if any(0.0 < share < 0.01 for share in shares) else 0
    scaled = [share * 100 * 10**digits for share in shares]
    units = [math.floor(value) for value in scaled]
    short = round(sum(scaled)) - sum(units)
    for i in sorted(range(len(shares)), key=lambda i: units[i] - scaled[i])[:short]:
        units[i] += 1
    return [
        "under 0.1 %" if share > 0.0 and not unit else f"{unit / 10**digits:.{digits}f} %"
        for share, unit in zip(shares, units, strict=True)
    ]


def _flights(weights: list[float], clusters: list[dict[str, Any]], names: Names) -> Callable[[Any], Iterable[str]]:
    """Return the words for one cluster of flights, given what is usual in all of them."""
    usual_hours = _together(weights, [parts["hour"].pmap for parts in clusters])
    usual_months = _together(weights, [parts["month"].pmap for parts in clusters])

    def say(parts: Mapping[str, Any]) -> Iterable[str]:
        cancelled = _missing(parts["dep_delay"])
        yield f"{_leaders(parts['carrier'].pmap, names)} {_places(parts['origin'].pmap, names)}"
        miles = _round(math.exp(parts["distance"].mu))
        yield f"~{miles:,.0f} miles" + _if_present(parts["air_time"], lambda law: f" ({_duration(law)} in the air)")
        yield _more_often(parts["hour"].pmap, usual_hours, PARTS_OF_DAY)
        yield _more_often(parts["month"].pmap, usual_months, SEASONS)
        yield _if_present(parts["dep_delay"], _delay)
        yield "all cancelled" if cancelled > 1 - PRESENT else f"{_percent(cancelled)} cancelled"

    return say


def _penguin(parts: Mapping[str, Any]) -> Iterable[str]:
    yield _places(parts["island"].pmap, {}).removeprefix("from ")
    yield _if_present(parts["bill_length_mm"], lambda law: f"bill {law.mu:.0f} mm long")
    yield _if_present(parts["bill_depth_mm"], lambda law: f"{law.mu:.0f} mm deep")
    yield _if_present(parts["flipper_length_mm"], lambda law: f"flipper {law.mu:.0f} mm")
    yield _if_present(parts["body_mass_g"], lambda law: f"{law.mu / 1000:.1f} kg")
    yield _if_present(parts["sex"], lambda law: f"{_percent(law.pmap.get('female', 0.0))} female")


def _ranked(shares: Shares, names: Names) -> list[tuple[str, float]]:
    ranked = sorted(shares.items(), key=lambda item: (-item[1], str(item[0])))
    return [(names.get(label, str(label)), share) for label, share in ranked]


def _leaders(shares: Shares, names: Names) -> str:
    """Name the labels that make up most of a categorical law."""
    ranked = [*_ranked(shares, names), ("", 0.0), ("", 0.0)]
    (first, most), (second, more), (third, _) = ranked[:3]
    if most > 0.9:
        return f"almost only {first}"
    if most > 0.6:
        return f"mostly {first}"
    if most + more > 0.6:
        return f"mostly {first} and {second}"
    return f"{first}, {second}, {third} and others"


def _places(shares: Shares, names: Names) -> str:
    """Name the places that matter: the fewest that make up eight in ten."""
    ranked, enough = _ranked(shares, names), 0.0
    chosen: list[str] = []
    while enough < 0.8 and len(chosen) < len(ranked):
        chosen.append(ranked[len(chosen)][0])
        enough += ranked[len(chosen) - 1][1]
    return "from " + (chosen[0] if len(chosen) == 1 else f"{', '.join(chosen[:-1])} and {chosen[-1]}")


def _together(weights: list[float], laws: list[Shares]) -> dict[Any, float]:
    """Return the shares of labels in all clusters together."""
    usual: dict[Any, float] = {}
    for weight, law in zip(weights, laws, strict=True):
        for label, share in law.items():
            usual[label] = usual.get(label, 0.0) + weight * share
    return usual


def _more_often(shares: Shares, usual: Shares, groups: Mapping[str, Iterable[int]]) -> str:
    """Name the group of labels that stands out against what is usual, if one does."""

    def share(law: Shares, name: str) -> float:
        return sum(law.get(label, 0.0) for label in groups[name])

    present = [name for name in groups if share(usual, name) > 0.0]
    if not present:
        return ""
    name = max(present, key=lambda name: share(shares, name) / share(usual, name))
    if share(shares, name) < LIFT * share(usual, name):
        return ""
    return f"mostly in {name}" if share(shares, name) > 0.6 else f"more in {name} than usual"


def _missing(law: Any) -> float:
    return float(law.p or 0.0)


def _if_present(law: Any, say: Callable[[Any], str]) -> str:
    return say(law.dist) if _missing(law) < 1 - PRESENT else ""


def _delay(law: Any) -> str:
    minutes, spread = law.mu, math.sqrt(law.sigma2)
    if minutes < -1.5:
        return f"typically {-minutes:.0f} min early"
    if minutes < 1.5:
        return "typically on time"
    around = f" (± {spread:.0f})" if spread >= 0.5 else ""
    return f"typically {minutes:.0f} min late{around}"


def _duration(law: Any) -> str:
    hours, minutes = divmod(round(law.k * law.theta), 60)
    return f"{hours} h {minutes:02d}" if hours else f"{minutes} min"


def _round(miles: float) -> float:
    return round(miles, -2) if miles >= 1000 else round(miles, -1)


def _percent(share: float) -> str:
    if share < 0.0005:
        return "none"
    if share < 0.01:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.0f} %"
