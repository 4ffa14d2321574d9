"""Fits in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mixle.stats.reading import is_missing

__all__ = ["explain_text", "law_text", "percent", "report_lines"]

#: Most labels of a law that are named, and the share below which one is not worth a word.
_LABELS, _TRACE = 4, 0.005
_UNITS = {"": "", "days": " (in days since 1970-01-01)", "durations": " (in days)"}
#: A share that prints as 0.0 %.
_NONE = 0.0005


def law_text(law: Any, conversion: str = "") -> str:
    """Return one law in words.

    Parameters
    ----------
    law : distribution
        Law of one column.
    conversion : str
        How its values became numbers.
    """
    name = type(law).__name__.removesuffix("Distribution")
    if name == "Optional":
        missing = float(law.p or 0.0)
        parts = [law_text(law.dist, conversion)] if missing < 1.0 else []
        parts += [f"{percent(missing)} missing"] if missing >= _NONE else []
        return "; ".join(parts)
    if name == "Gaussian":
        return _around(float(law.mu), math.sqrt(float(law.sigma2)), conversion)
    if name in _WORDS:
        return _WORDS[name](law) + _UNITS.get(conversion, "")
    if name in {"Composite", "Record"}:
        named = law.fields.items() if name == "Record" else enumerate(law.dists)
        return "; ".join(f"{key}: {law_text(part)}" for key, part in named)
    if name == "Sequence":
        length = "" if law.len_dist is None else f"; length {law_text(law.len_dist)}"
        return f"items {law_text(law.dist, conversion)}{length}"
    if name == "Mixture":
        mixed = zip(law.w, law.components, strict=True)
        return "; ".join(f"{percent(float(w))}: {law_text(part, conversion)}" for w, part in mixed)
    given = [field for field in (*law._fields, *getattr(law, "_keyword_fields", ())) if field not in {"name", "keys"}]
    return f"{name}({', '.join(f'{key} = {_number(getattr(law, key))}' for key in given)})"


def _negative_binomial(law: Any) -> str:
    mean = float(law.r) * (1.0 - float(law.p)) / float(law.p)
    if mean < 0.05 * float(law.r):  # the variance is the mean, all but 5 %: a Poisson
        return f"{mean:.4g} on average"
    return f"{mean:.4g} on average, widely spread (r = {float(law.r):.3g})"


def _log_gaussian(law: Any) -> str:
    return f"around {math.exp(law.mu):.4g}, times or divided by {math.exp(math.sqrt(law.sigma2)):.3g}"


def _labels(shares: dict[Any, float]) -> str:
    ranked = sorted(((label, float(p)) for label, p in shares.items() if p > 0.0), key=lambda x: (-x[1], str(x[0])))
    shown = [item for i, item in enumerate(ranked[:_LABELS]) if i == 0 or item[1] >= _TRACE]
    text = ", ".join(f"{label} {percent(share)}" for label, share in shown)
    rest = 1.0 - sum(share for _, share in shown)
    return f"{text} and {len(ranked) - len(shown)} more" if rest > _TRACE else text


_WORDS: dict[str, Callable[[Any], str]] = {
    "Bernoulli": lambda law: f"{percent(float(law.p))} true",
    "Categorical": lambda law: _labels(law.pmap),
    "Gamma": lambda law: f"{law.k * law.theta:.4g} ± {math.sqrt(law.k) * law.theta:.3g}, with a long tail",
    "IntegerCategorical": lambda law: _labels({law.min_val + i: p for i, p in enumerate(law.p_vec)}),
    "Beta": lambda law: f"{law.a / (law.a + law.b):.3g} on average (a share; a = {law.a:.3g}, b = {law.b:.3g})",
    "Exponential": lambda law: f"{law.beta:.4g} on average, falling off exponentially",
    "LogGaussian": _log_gaussian,
    "NegativeBinomial": _negative_binomial,
    "Null": lambda _: "anything",
    "PointMass": lambda law: f"always {law.value!s:.40}",
    "Poisson": lambda law: f"{float(law.lam):.4g} on average",
    "StudentT": lambda law: f"{law.loc:.4g} ± {law.scale:.3g}, with heavy tails (df = {law.df:.3g})",
    "Uniform": lambda law: f"{law.low:.4g} to {law.high:.4g}, evenly",
}


def _around(mean: float, spread: float, conversion: str) -> str:
    if conversion != "days":
        return f"{mean:.4g} ± {spread:.3g}{' days' if conversion else ''}"
    import datetime as dt

    try:
        day = dt.date.fromordinal(dt.date(1970, 1, 1).toordinal() + round(mean))
    except (OverflowError, ValueError):
        return f"day {mean:.4g} ± {spread:.3g}"
    return f"{day.isoformat()} (day {mean:.6g}) ± {spread:.3g} days"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value!r:.60}"


def percent(share: float) -> str:
    """Return a share in percent, small ones with a digit more."""
    return f"{100 * share:.1f} %" if _NONE <= share < 0.0995 else f"{100 * share:.0f} %"


def report_lines(fit: Any) -> list[str]:
    """Return how a table was fitted, line by line.

    Parameters
    ----------
    fit : Fit
        The fit.
    """
    best = fit.chosen
    how = f"settled after {best.iterations}" if best.settled else f"NOT settled after {best.iterations}"
    columns = len(fit.schema.used)
    counts = [(best.components, "cluster"), (fit.schema.rows, "row"), (columns, "column")]
    clusters, rows, fields = (f"{count:,} {noun}{'s' * (count != 1)}" for count, noun in counts)
    told = f"log-likelihood {best.log_likelihood:,.2f}, {best.parameters} parameters"
    lines = [f"{clusters} of {rows} and {fields}, {how} iterations on {fit.backend}"]
    lines.append(f"{told}, AIC {fit.aic:,.1f}, BIC {fit.bic:,.1f}")
    if len(fit.tried) > 1:
        tried = ", ".join(f"{candidate.components}: {candidate.bic:,.1f}" for candidate in fit.tried)
        lines.append(f"BIC by number of clusters: {tried}")
    ignored = [f"{field.name} ({field.reason})" for field in fit.schema if field.estimator is None]
    if ignored:
        lines.append(f"left out: {'; '.join(ignored)}")
    told = fit.model.fit_provenance()
    notes = fit.model.numerical_repairs() if told is None else told.repairs
    lines += [f"note: {note}" for note in notes]
    return lines


def _value(value: Any) -> str:
    if is_missing(value):
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else f"{value!s:.40}"


def explain_text(found: Any) -> str:
    """Return an `Explanation` in words.

    Parameters
    ----------
    found : Explanation
        Which columns spoke for which cluster.
    """
    first = f"cluster {found.cluster} ({percent(found.probability)})"
    second = f"cluster {found.runner_up} ({percent(found.runner_up_probability)})"
    lines = [f"{first} before {second}; nats for it, or against:"]
    width = max(len(str(name)) for name in [*found.fields, "weight"])
    ranked = sorted(found.fields.items(), key=lambda item: -abs(item[1]))
    lines += [f"  {name!s:<{width}}  {gain:+8.2f}  {_value(found.row[name])}" for name, gain in ranked]
    lines.append(f"  {'weight':<{width}}  {found.weight:+8.2f}")
    return "\n".join(lines)
