"""What the pieces of this library do with an argument that they cannot read: they say what it is and what to pass.

Every class of this library that takes a statistic, encoded rows or rows has its methods wrapped when it is made. A
statistic is held to the layout that its type declares; whatever else goes wrong inside is explained where it came
out. Errors that are raised in words, and those of code that is not this library's, pass as they are.
"""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, NoReturn

from mixle._trust import HERE, trusted
from mixle.errors import ContractError, MixleError
from mixle.stats.drawn import check_draws_of
from mixle.stats.layouts import ADVICE, check_layout, check_type
from mixle.stats.refusals import refuse_rows, told, walkable

__all__ = ["Doors"]

#: What Python and numpy raise on an argument that they cannot work with.
_RAW = (TypeError, ValueError, AttributeError, LookupError, ZeroDivisionError, OverflowError)
_RAISE = opcode.opmap["RAISE_VARARGS"]
#: Whose frames may lie between a door and an error that is explained: an error of other code is that code's own.
_OURS = frozenset({"mixle", "numpy", "scipy"}) | sys.stdlib_module_names
_READERS = (
    "columns",
    "nbytes",
    "row_count",
    "seq_component_log_density",
    "seq_forecast",
    "seq_initialize",
    "seq_log_density",
    "seq_posterior",
    "seq_update",
    "seq_update_scored",
    "seq_viterbi",
    "slice",
    "supported_rows",
)


class Doors:
    """Base of the five pieces: wraps the methods of a class of this library, and the draws of any."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_draws_of(cls)
        if cls.__module__.partition(".")[0] != "mixle":
            return
        for name, door in _DOORS.items():
            method = cls.__dict__.get(name)
            if isinstance(method, FunctionType) and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, door(method))


def _in_words(trace: TracebackType | None) -> bool:
    """Return whether an error was raised by a statement of this library, or came out of code that is not its own."""
    last, name = None, "mixle"
    while trace is not None:
        last, name = trace, str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in _OURS:
            return True
        trace = trace.tb_next
    return last is not None and name == "mixle" and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _explain(error: Exception, text: str) -> NoReturn:
    if isinstance(error, MixleError) or _in_words(error.__traceback__):
        raise error
    raise ContractError(text.format(what=f"{type(error).__name__}: {error}".replace("\n", " ")[:120])) from error


def _layout_of(make: Callable[[], Any]) -> str:
    try:
        return f", which is {told(make())}"
    except Exception:  # noqa: BLE001 - a refusal must not fail on what it tells
        return ""


def _changing(method: Any) -> Any:
    """Wrap `combine` or `from_value`: what is refused leaves the accumulator as it was."""

    @functools.wraps(method)
    def door(self: Any, value: Any, *rest: Any) -> Any:
        if HERE.trusted:
            return _explained(self, method, value, rest)
        where, leaf = f"{type(self).__name__}.{method.__name__}", getattr(self, "leaf", None)
        check_layout(value, where, leaf)
        if HERE.inside or type(self).__module__.partition(".")[0] != "mixle":
            return _explained(self, method, value, rest)
        before = self.value()
        if leaf is None:
            check_type(value, before, where)
        HERE.inside = True
        try:
            return _explained(self, method, value, rest)
        except Exception:
            with trusted():
                self.from_value(before)
            raise
        finally:
            HERE.inside = False

    return door


def _explained(self: Any, method: Any, value: Any, rest: tuple[Any, ...]) -> Any:
    try:
        return method(self, value, *rest)
    except _RAW as error:
        where = f"{type(self).__name__}.{method.__name__}"
        _explain(error, _not_of(where, value, _layout_of(self.value)))


def _not_of(where: str, value: Any, layout: str) -> str:
    text = f"{where}: {told(value)} is not the statistic of this model{layout}".replace("{", "{{").replace("}", "}}")
    return f"{text} ({{what}}); {ADVICE}"


def _estimating(method: Any) -> Any:
    """Wrap `estimate`; what a statistic lacks is told by an accumulator, which is asked to take it."""

    @functools.wraps(method)
    def door(self: Any, nobs: Any, suff_stat: Any, *rest: Any, **options: Any) -> Any:
        where = f"{type(self).__name__}.estimate"
        if not HERE.trusted:
            leaf = getattr(self, "leaf", None)
            check_layout(suff_stat, where, leaf)
            if leaf is None and hasattr(suff_stat, "_fields"):
                check_type(suff_stat, self.accumulator_factory().make().value(), where)
        try:
            return method(self, nobs, suff_stat, *rest, **options)
        except _RAW as error:
            if not isinstance(error, MixleError) and _in_words(error.__traceback__):
                _ask(self, suff_stat, error)
            layout = _layout_of(lambda: self.accumulator_factory().make().value())
            _explain(error, _not_of(where, suff_stat, layout))

    return door


def _ask(estimator: Any, value: Any, error: Exception) -> None:
    """Raise what an accumulator says to a statistic that could not be estimated from, if it says it in words."""
    try:
        estimator.accumulator_factory().make().from_value(value)
    except MixleError as refusal:
        raise refusal from error
    except Exception:  # noqa: BLE001 - the error of the estimate is the one to tell
        return


def _reading(method: Any) -> Any:
    """Wrap what takes encoded rows first."""

    @functools.wraps(method)
    def door(self: Any, x: Any, *rest: Any, **options: Any) -> Any:
        try:
            return method(self, x, *rest, **options)
        except _RAW as error:
            what = told(x).replace("{", "{{").replace("}", "}}")
            weights = ", and float64 weights, one for each row" if "weights" in method.__code__.co_varnames else ""
            text = f"{type(self).__name__}.{method.__name__}: {what} is not what its encoder returns ({{what}})"
            _explain(error, f"{text}; pass model.dist_to_encoder().seq_encode(rows){weights}")

    return door


def _encoding(method: Any) -> Any:
    """Wrap what takes rows."""

    @functools.wraps(method)
    def door(self: Any, rows: Any) -> Any:
        try:
            return method(self, rows)
        except _RAW as error:
            where = f"{type(self).__name__}.seq_encode"
            if not walkable(rows) and not isinstance(error, MixleError):
                refuse_rows(where, rows)
            what = told(rows).replace("{", "{{").replace("}", "}}")
            _explain(
                error, f"{where}: {what} has no rows of this model ({{what}}); pass a list of rows as it draws them"
            )

    return door


_DOORS: dict[str, Callable[[Any], Any]] = {
    "combine": _changing,
    "from_value": _changing,
    "estimate": _estimating,
    "seq_encode": _encoding,
    **dict.fromkeys(_READERS, _reading),
}
