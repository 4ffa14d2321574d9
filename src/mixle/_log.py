"""What happens inside, to whoever listens: the loggers ``mixle.*``, with the same facts on every record."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any

__all__ = ["ROUND", "listening", "note"]

#: Round at work and run it belongs to, for records made meanwhile.
ROUND: ContextVar[tuple[int | None, str | None]] = ContextVar("mixle_round", default=(None, None))


def note(level: str, area: str, message: str, **facts: Any) -> None:
    """Log a message under ``mixle.<area>``; a program that never loaded `logging` cannot listen and pays nothing.

    Parameters
    ----------
    level : str
        ``"info"``, ``"warning"`` or ``"error"``.
    area : str
        Name of the logger below ``mixle``.
    message : str
        The sentence.
    **facts : Any
        Attributes of the record. ``worker``, ``shard``, ``round`` and ``run_id`` are there in any case, None where
        they are not known.

    Examples
    --------
    >>> import logging
    >>> note("info", "pool", "worker 3 was started again", worker=3)
    >>> type(logging.getLogger("mixle").handlers[0]).__name__
    'NullHandler'
    """
    if "logging" not in sys.modules:
        return
    number, run_id = ROUND.get()
    extra = {"worker": None, "shard": None, "round": number, "run_id": run_id, **facts}
    getattr(_logger(area), level)(message, extra=extra, stacklevel=2)


def listening(area: str, level: str = "warning") -> bool:
    """Return whether a record of this level would reach a handler that does something."""
    if "logging" not in sys.modules:
        return False
    import logging

    logger: logging.Logger | None = _logger(area)
    if logger is None or not logger.isEnabledFor(getattr(logging, level.upper())):
        return False
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _logger(area: str) -> Any:
    import logging

    top = logging.getLogger("mixle")
    if not any(isinstance(handler, logging.NullHandler) for handler in top.handlers):
        top.addHandler(logging.NullHandler())
    return logging.getLogger(f"mixle.{area}")
