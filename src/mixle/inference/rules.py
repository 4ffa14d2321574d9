"""Which family fits a column: the rules of `mixle.schema` and `infer`, each with the reason it prints."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.errors import SchemaError
from mixle.inference.written import reads_like
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import is_missing

__all__ = ["RULES", "Choice", "choose", "named_estimator", "table_text"]

#: Text, in the order in which the rules are tried.
RULES = """\
no value in any row                         left out
the same value in every row                 left out
true and false, or 0 and 1                  Bernoulli
text                                        Categorical; left out if it looks like a name for each row
1, 2, 3, ... or 0, 1, 2, ... down the rows  left out: the number of the row
whole numbers, few of them                  IntegerCategorical
whole numbers >= 0, no larger than 1000     Poisson, NegativeBinomial where they spread more; Gaussian where less,
                                            or where the smallest is above half the mean; ZeroInflated around
                                            Poisson or NegativeBinomial where that has a BIC lower by more than 10
numbers > 0 with a long tail                LogGaussian or Gamma, whichever fits the column better
any other number                            Gaussian
dates                                       as numbers: days since 1970-01-01
some values missing                         Optional around the family
Never guessed: shares (Beta), angles (VonMises), heavy tails (StudentT). Say so with schema.replace(column="Beta")."""

FEW, LARGEST_COUNT, MOST_LABELS, TAIL = 12, 1000, 1000, 1.0
#: By how much zeros of their own must lower the BIC of a column of counts: "very strong" evidence in Kass and Raftery,
#: "Bayes Factors", J. American Statistical Association 90, 1995, pages 773-795.
ZEROS = 10.0


@dataclass(frozen=True)
class Choice:
    """What the rules say of one column.

    Attributes
    ----------
    family : str
        Name of the family without ``Estimator``, or ``"Ignored"``.
    reason : str
        Why, in the words that the schema prints.
    arguments : dict
        Arguments of the family's estimator.
    missing : int
        Number of rows without a value.
    """

    family: str
    reason: str
    arguments: dict[str, Any]
    missing: int

    @property
    def estimator(self) -> Any:
        """Estimator of the values that are there; None for what is left out."""
        return None if self.family == "Ignored" else named_estimator(self.family, self.arguments)


def choose(name: Any, values: Any) -> Choice:
    """Return the family for a column, with the reason.

    Parameters
    ----------
    name : object
        Name of the column, for messages.
    values : ndarray or list
        Its values, None or NaN where missing.

    Raises
    ------
    SchemaError
        If the values are not of one kind (text, numbers, truth values), not finite, or no single values.

    Examples
    --------
    >>> choose("x", [0.5, None, -1.25, 3.0]).family
    'Gaussian'
    >>> choose("city", ["Rome", "Oslo", "Rome", "Rome"]).reason
    'text with 2 different values'
    """
    if isinstance(values, LabelColumn):
        missing = int(values.missing.sum())
        return _labels(name, values.counts(), missing) if missing < len(values) else _nothing(missing)
    there, missing = _present(values)
    if not len(there):
        return _nothing(missing)
    kind = _kind(name, there, values)
    if kind == "text":
        return _labels(name, Counter(there), missing)
    numbers_ = _finite(name, there, values)
    low, high = float(numbers_.min()), float(numbers_.max())
    if low == high and _differ(there):
        reason = f"whole numbers near {low:.6g} that float64 cannot tell apart, like names"
        return Choice("Ignored", reason, {}, missing)
    if low == high and not missing:
        return Choice("Ignored", f"the same value in every row: {low:.6g}", {}, missing)
    if kind == "truth" or ({low, high} <= {0.0, 1.0} and bool(np.isin(numbers_, (0.0, 1.0)).all())):
        share = f"{100 * float(numbers_.mean()):.3g} % true"
        return Choice("Bernoulli", f"{'true and false' if kind == 'truth' else '0 and 1'}, {share}", {}, missing)
    if low == high:
        return Choice("Categorical", f"one value ({low:.6g}) or none: whether it is there", {}, missing)
    if bool((numbers_ == np.floor(numbers_)).all()) and max(-low, high) < 2**53:
        found = _whole(numbers_, missing)
        if found is not None:
            return found
    return _measure(numbers_, missing)


def _differ(there: Any) -> bool:
    """Return whether values that are one number in float64 differ: whole numbers beyond 2**53."""
    return not (isinstance(there, np.ndarray) and there.dtype.kind == "f") and any(one != there[0] for one in there)


def _finite(name: Any, there: Any, values: Any) -> np.ndarray:
    """Return the values that are there as float64 numbers, all of them finite."""
    try:
        numbers_ = np.asarray(there, dtype=float)
    except OverflowError:
        row = _row_of(values, lambda v: isinstance(v, int) and abs(v) > sys.float_info.max)
        raise SchemaError(
            f"column {name!r} holds a number that float64 cannot (row {row}: {values[row].bit_length()} bits); "
            "give the column another unit, or turn it into text"
        ) from None
    if not np.isfinite(numbers_).all():
        raise SchemaError(
            f"column {name!r} holds an infinity (row {_row_of(values, lambda v: math.isinf(float(v)))}); "
            "replace it by a missing value (None or NaN) or leave the row out"
        )
    return numbers_


def _present(values: Any) -> tuple[Any, int]:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        if values.dtype.kind != "f":
            return values, 0
        there = values[~np.isnan(values)]
        return there, len(values) - len(there)
    known = [value for value in values if not is_missing(value)]
    return known, len(values) - len(known)


def _row_of(values: Any, test: Any) -> int:
    return next(i for i, value in enumerate(values) if not is_missing(value) and test(value))


def _kind(name: Any, there: Any, values: Any) -> str:
    """Return ``"text"``, ``"truth"`` or ``"number"``."""
    if isinstance(there, np.ndarray):
        return "truth" if there.dtype.kind == "b" else "number"
    kinds = {kind: _kind_of(kind) for kind in dict.fromkeys(map(type, there))}
    for kind, found in kinds.items():
        if found == "":
            row = _row_of(values, lambda v, kind=kind: type(v) is kind)
            if issubclass(kind, (dt.date, dt.timedelta, np.datetime64, np.timedelta64)):
                raise SchemaError(
                    f"column {name!r} holds dates (row {row}: {values[row]!s:.60}); mixle.schema(table) and mixle.fit "
                    "read those of a table as days, a row of a fit holds numbers: turn them into numbers first"
                )
            raise SchemaError(
                f"column {name!r} holds {_of_kind(kind)} (row {row}: {values[row]!r:.60}), {_instead(name, kind)}"
            )
    if len(set(kinds.values())) > 1:
        shown = []
        for found in dict.fromkeys(kinds.values()):
            row = _row_of(values, lambda v, found=found: kinds[type(v)] == found)
            shown.append(f"{found} (row {row}: {values[row]!r:.60})")
        raise SchemaError(
            f"column {name!r} mixes {' and '.join(shown)}; make it one kind, "
            f"for example df[{name!r}] = df[{name!r}].astype(str) or pandas.to_numeric(df[{name!r}], errors='coerce')"
        )
    return kinds[type(there[0])]


def _of_kind(kind: type) -> str:
    name = kind.__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _instead(name: Any, kind: type) -> str:
    """Return what is wrong with values of a kind that is none of ours, and what helps."""
    if hasattr(kind, "__len__") or hasattr(kind, "__iter__"):
        return "not one value per row; leave it out, or turn it into columns of single values"
    return (
        "which is no number, text, truth value or date; leave it out, or turn it into one of them, for example "
        f"df[{name!r}] = df[{name!r}].astype(str)"
    )


def _kind_of(kind: type) -> str:
    import decimal

    if issubclass(kind, (bool, np.bool_)):
        return "truth"
    if issubclass(kind, (numbers.Real, decimal.Decimal)):
        return "number"
    return "text" if issubclass(kind, (str, bytes)) else ""


def _nothing(missing: int) -> Choice:
    return Choice("Ignored", f"no value in any of {missing:,} rows", {}, missing)


def _labels(name: Any, counts: Mapping[Any, int], missing: int) -> Choice:
    found, rows = len(counts), sum(counts.values())
    if found == 1:
        (label,) = counts
        if missing:
            return Choice("Categorical", f"one value ({label!r:.40}) or none: whether it is there", {}, missing)
        return Choice("Ignored", f"the same value in every row: {label!r:.40}", {}, missing)
    if found > MOST_LABELS or (found > 20 and 2 * found > rows):
        why = f"text with {found:,} different values in {rows:,} rows, like a name for each"
        hint = reads_like(name, counts) or "family Categorical takes it all the same"
        return Choice("Ignored", f"{why}; {hint}", {}, missing)
    hint = reads_like(name, counts) if found > FEW else ""
    return Choice("Categorical", f"text with {found} different values{'; ' if hint else ''}{hint}", {}, missing)


def _whole(values: np.ndarray, missing: int) -> Choice | None:
    """Return the choice for whole numbers, or None if they are to be taken as measures."""
    rows, low, high = len(values), int(values.min()), int(values.max())
    if rows > 20 and low in {0, 1} and high - low == rows - 1 and bool((np.diff(values) == 1.0).all()):
        return Choice("Ignored", "the number of the row", {}, missing)
    distinct = len(np.unique(values)) if high - low <= 10 * FEW else FEW + 1
    if distinct <= FEW and high - low < 4 * FEW and rows >= 5 * distinct:
        reason = f"whole numbers {low} to {high}, {distinct} different"
        return Choice("IntegerCategorical", reason, {"min_val": low, "max_val": high}, missing)
    if low < 0 or high > LARGEST_COUNT:
        return None
    mean = float(values.mean())
    if 2 * low > mean:
        return Choice("Gaussian", f"whole numbers {low} to {high}, far from 0", _floor(values), missing)
    spread = float(values.var()) / mean
    about = f"counts {low} to {high}, variance {spread:.2g} x mean"
    if spread < 0.5:
        return Choice("Gaussian", f"whole numbers; {about}: too even for counts", _floor(values), missing)
    return _zeros(values, about, missing) or Choice(
        "NegativeBinomial" if spread > 1.5 else "Poisson", about, {}, missing
    )


def _zeros(values: np.ndarray, about: str, missing: int) -> Choice | None:
    """Return the choice for counts with more zeros than a law of counts gives, or None.

    With zeros to spare a ZeroInflated law is as likely as a Hurdle, which one M-step fits.
    """
    from mixle import stats

    found, weights = np.unique(values, return_counts=True)
    share = float(weights[0]) / len(values) if found[0] == 0.0 else 0.0
    if not share > 0.0 or len(found) < 3:
        return None
    bases = {"Poisson": stats.PoissonEstimator(), "NegativeBinomial": stats.NegativeBinomialEstimator()}
    plain = {name: _bic(base, found, weights) for name, base in bases.items()}
    hurdle = {name: _bic(stats.HurdleEstimator(base), found, weights) for name, base in bases.items()}
    law, own = min(plain, key=lambda name: plain[name][0]), min(hurdle, key=lambda name: hurdle[name][0])
    gain, given = plain[law][0] - hurdle[own][0], plain[law][1].density(0)
    if not (gain > ZEROS and share > max(given, hurdle[own][1].base.density(0))):
        return None
    reason = f"{about}; {100 * share:.3g} % zeros where {law} gives {100 * given:.3g} %: with zeros of their own, "
    reason += f"beside {own}, the BIC is {gain:.4g} lower"
    return Choice("ZeroInflated", reason, {"base_estimator": bases[own]}, missing)


def _bic(estimator: Any, values: np.ndarray, weights: np.ndarray) -> tuple[float, Any]:
    """Return the Bayesian information criterion of weighted values under the law fitted to them, and that law."""
    from mixle.stats.counting import free_parameters

    total, accumulator = float(weights.sum()), estimator.accumulator_factory().make()
    encoded = accumulator.acc_to_encoder().seq_encode(values)
    accumulator.seq_update(encoded, weights.astype(float), None)
    law = estimator.estimate(total, accumulator.value())
    return -2.0 * float(weights @ law.seq_log_density(encoded)) + free_parameters(law) * math.log(total), law


def _measure(values: np.ndarray, missing: int) -> Choice:
    low, high = float(values.min()), float(values.max())
    about = f"numbers {low:.4g} to {high:.4g}"
    if low > 0.0:
        logs = np.log(values)
        skew, log_skew = _skewness(values), _skewness(logs)
        if skew > TAIL and abs(log_skew) < skew:
            gamma, log_gaussian = _gamma_fit(values, logs), _log_gaussian_fit(logs)
            about += f", all > 0, with a long tail (skewness {skew:.2g})"
            if gamma > log_gaussian:
                return Choice("Gamma", about, {}, missing)
            return Choice("LogGaussian", about, _floor(logs), missing)
    return Choice("Gaussian", about, _floor(values), missing)


def _floor(values: np.ndarray) -> dict[str, Any]:
    """Return the variance floor that keeps a cluster from closing in on one row: a millionth of the column's."""
    with np.errstate(all="ignore"):  # numbers near the largest: what they overflow to is tested
        variance = float(values.var())
    return {"min_covar": 1e-6 * variance} if 0.0 < 1e-6 * variance < math.inf else {}


def _skewness(values: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        spread = float(values.std())
    if not 0.0 < spread < math.inf:
        return 0.0
    return float((((values - values.mean()) / spread) ** 3).mean())


def _gamma_fit(values: np.ndarray, logs: np.ndarray) -> float:
    """Return the mean log-density of the Gamma law near its maximum (the start of the iteration of Minka, 2002)."""
    mean, mean_log = float(values.mean()), float(logs.mean())
    gap = math.log(mean) - mean_log
    if gap <= 0.0:
        return -math.inf
    k = (3.0 - gap + math.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    return k * math.log(k / mean) - math.lgamma(k) + (k - 1.0) * mean_log - k


def _log_gaussian_fit(logs: np.ndarray) -> float:
    variance = float(logs.var())
    return -float(logs.mean()) - 0.5 * math.log(2.0 * math.pi * math.e * variance) if variance > 0.0 else math.inf


def named_estimator(family: str, arguments: Mapping[str, Any]) -> Any:
    """Return the estimator of a family by its name.

    Parameters
    ----------
    family : str
        Name of the family without ``Estimator``.
    arguments : mapping
        Arguments of the estimator.

    Raises
    ------
    SchemaError
        For a name that is no family, and for one whose estimator needs other arguments.
    """
    import inspect
    from difflib import get_close_matches

    from mixle import stats

    if f"{family}Estimator" not in stats.__all__:
        names = [name.removesuffix("Estimator") for name in stats.__all__ if name.endswith("Estimator")]
        near = get_close_matches(family, names, n=1)
        meant = f"did you mean {near[0]!r}? There" if near else "there"
        raise SchemaError(f"{family!r} is no family; {meant} are {', '.join(names)}")
    kind = getattr(stats, f"{family}Estimator")
    try:
        return kind(**arguments)
    except TypeError:
        needed = [name for name, p in inspect.signature(kind).parameters.items() if p.default is p.empty]
        call = f"mixle.stats.{family}Estimator({', '.join(f'{name}=...' for name in needed) or '...'})"
        raise SchemaError(f"{family} needs arguments: pass {call} itself in place of its name") from None
    except ValueError as error:
        raise SchemaError(
            f"{family} needs other arguments ({error}): pass mixle.stats.{family}Estimator(...) itself in place of "
            "its name"
        ) from None


def table_text(cells: Sequence[tuple[str, str, str]], rows: int) -> str:
    """Return what was chosen as a text of three columns and a last line with the number of rows.

    Parameters
    ----------
    cells : sequence of (str, str, str)
        Name, family and reason of each line, the heading first.
    rows : int
        Number of rows.
    """
    widths = [max(len(row[j]) for row in cells) for j in range(2)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in cells]
    return "\n".join([*lines, f"({rows:,} rows)"])
