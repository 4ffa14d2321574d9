"""The components of any model in words, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mixle.tables.words import law_text, percent

__all__ = ["Summary", "summary"]


@dataclass(frozen=True)
class Summary:
    """Components in words; printing it gives text, a notebook shows a table.

    Attributes
    ----------
    what : str
        What the parts are: ``"Cluster"``, ``"State"`` or ``"Model"``.
    parts : tuple of (str, str, tuple of (str, str))
        Name of each part, its weight in words, and its fields with their laws.

    Examples
    --------
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> found = summary(MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)], [0.5, 0.5]))
    >>> found.what, len(found.parts)
    ('Cluster', 2)
    """

    what: str
    parts: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]

    def __str__(self) -> str:
        lines = []
        width = max((len(name) for *_, fields in self.parts for name, _ in fields), default=0)
        for name, weight, fields in self.parts:
            lines.append(f"{name}: {weight}" if weight else name)
            lines += [f"    {field:<{width}}  {text}".rstrip() for field, text in fields]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        names = list(dict.fromkeys(field for *_, fields in self.parts for field, _ in fields))
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in (self.what, "share", *names))
        body = []
        for name, weight, fields in self.parts:
            texts = dict(fields)
            cells = "".join(f"<td>{escape(text)}</td>" for text in (weight, *(texts.get(one, "") for one in names)))
            body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
        caption = f"<caption>{escape(self.what)}s in words</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def summary(model: Any, conversions: Sequence[tuple[Any, str]] = ()) -> Summary:
    """Return the components of a model in words, the heaviest first.

    Parameters
    ----------
    model : distribution
        A mixture, a hidden Markov model, or any other law, which is one part then.
    conversions : sequence of (field, conversion)
        How the values of some fields became numbers, as ``("day", "days")``.

    Returns
    -------
    Summary
        ``print(...)`` it, or let a notebook show it.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution, GaussianDistribution, MixtureDistribution, RecordDistribution
    >>> from mixle.tables import summary
    >>> tea = RecordDistribution({"drink": CategoricalDistribution({"tea": 1.0}), "grams": GaussianDistribution(2.0, 0.25)})
    >>> print(summary(MixtureDistribution([tea], [1.0])))
    Cluster 0: 100.0 % of the rows
        drink  tea 100 %
        grams  2 ± 0.5
    """  # noqa: E501 - a law on one line
    told = dict(conversions)
    if hasattr(model, "transitions") and hasattr(model, "emissions"):
        parts = []
        for k, law in enumerate(model.emissions):
            weight = f"starts {percent(float(model.w[k]))}, stays {percent(float(model.transitions[k][k]))}"
            parts.append((f"State {k}", weight, _fields(law, told)))
        return Summary("State", tuple(parts))
    if hasattr(model, "components") and hasattr(model, "w"):
        order = sorted(range(len(model.components)), key=lambda k: -float(model.w[k]))
        rows = [(f"Cluster {k}", f"{100 * float(model.w[k]):.1f} % of the rows") for k in order]
        laws = [model.components[k] for k in order]
        return Summary("Cluster", tuple((*row, _fields(law, told)) for row, law in zip(rows, laws, strict=True)))
    return Summary("Model", (("Model", "", _fields(model, told)),))


def _fields(law: Any, conversions: dict[Any, str]) -> tuple[tuple[str, str], ...]:
    kind = type(law).__name__.removesuffix("Distribution")
    if kind == "Record":
        named = list(law.fields.items())
    elif kind == "Composite":
        named = list(enumerate(law.dists))
    else:
        named = [("value", law)]
    return tuple((str(name), law_text(one, conversions.get(name, ""))) for name, one in named)
