"""Every exception and warning of this library, each also a builtin so that callers need not import it."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AlteredPayload",
    "ArityError",
    "BackendError",
    "BernoulliSetFitError",
    "CheckpointError",
    "ContractError",
    "ConvergenceWarning",
    "CorruptedRows",
    "EmptyDataError",
    "EncodedDataControlConflictError",
    "EnumerationError",
    "HandleClosed",
    "ImpossibleEvidenceError",
    "IntegerBernoulliSetFitError",
    "InterruptWarning",
    "KeyValidationError",
    "MissingPackage",
    "MixleError",
    "MixleWarning",
    "NeutralFactorError",
    "NonGenerativeConditionalError",
    "NonGenerativeIntegerMarkovChainError",
    "NonGenerativeMarkovChainError",
    "NonGenerativeSelectError",
    "NonGenerativeSequenceError",
    "PayloadError",
    "RecordsError",
    "RepairWarning",
    "RoundLosses",
    "RowError",
    "SchemaError",
    "SerializationError",
    "SourceChanged",
    "SupportError",
    "TaskError",
    "TransformCompatibilityError",
    "TransformDomainError",
    "UnscorableObservation",
    "VonMisesFisherFitError",
    "VonMisesFitError",
    "WorkerLost",
]


class MixleError(Exception):
    """Base of all errors of this library."""


class RowError(MixleError, ValueError):
    """A row that a model cannot read.

    Parameters
    ----------
    reason : str
        What is wrong with the value.
    family : str
        Family that refused it, for example ``"Gaussian"``.
    row : int or None
        Position of the row.
    fields : tuple
        Path of fields inside the row, outermost first.
    """

    def __init__(self, reason: str, family: str = "", row: int | None = None, fields: tuple[Any, ...] = ()) -> None:
        super().__init__(reason, family, row, tuple(fields))
        self.reason, self.family, self.row, self.fields = reason, family, row, tuple(fields)

    def at(self, row: int) -> RowError:
        """Return the same error naming another row."""
        return type(self)(self.reason, self.family, row, self.fields).with_traceback(self.__traceback__)

    def inside(self, field: Any) -> RowError:
        """Return the same error seen from an enclosing row, `field` being the outer step of the path."""
        return type(self)(self.reason, self.family, self.row, (field, *self.fields)).with_traceback(self.__traceback__)

    def __str__(self) -> str:
        where = [] if self.row is None else [f"row {self.row}"]
        where += [f"field {field!r}" for field in self.fields]
        place = ", ".join(where)
        place = place[:1].upper() + place[1:]
        if self.family:
            place = f"{place} ({self.family})" if place else self.family
        return f"{place}: {self.reason}" if place else self.reason


class UnscorableObservation(RowError):
    """A value for which a density is not defined (NaN, for example)."""


class SupportError(RowError):
    """A row outside the support of the family that is fitted to it."""


class ContractError(MixleError, ValueError):
    """A row or a statistic whose shape breaks the contract of its model."""


class EmptyDataError(MixleError, ValueError):
    """There are no rows (or no weight) to work on."""


class BernoulliSetFitError(EmptyDataError, RuntimeError):
    """Without rows a law of sets has no probabilities."""


class IntegerBernoulliSetFitError(EmptyDataError, RuntimeError):
    """Without rows a law of sets of integers has no probabilities."""


class VonMisesFisherFitError(EmptyDataError, RuntimeError):
    """A von Mises–Fisher law without rows has no direction."""


class VonMisesFitError(EmptyDataError, RuntimeError):
    """A von Mises law without rows has no direction."""


class KeyValidationError(MixleError, ValueError):
    """Tying keys that cannot be honoured."""


class SchemaError(MixleError, ValueError):
    """A table whose columns cannot be given families, or a schema that does not fit the table."""


class SerializationError(MixleError, ValueError):
    """A model that cannot be written to, or read from, JSON."""


class EnumerationError(MixleError, NotImplementedError):
    """A law whose outcomes cannot be listed by their probability."""


class NeutralFactorError(MixleError, ValueError, TypeError):
    """A factor without a law was asked for a sample."""


class NonGenerativeSequenceError(MixleError, ValueError, TypeError):
    """A sequence model without a law of the length was asked for a sample."""


class NonGenerativeMarkovChainError(NonGenerativeSequenceError):
    """A Markov chain was sampled without a law of the length."""


class NonGenerativeIntegerMarkovChainError(NonGenerativeSequenceError):
    """A chain of integers was sampled without a law of its first values or of the length."""


class NonGenerativeConditionalError(MixleError, TypeError):
    """Pairs were drawn from a conditional law without a law of what is given."""


class NonGenerativeSelectError(MixleError, TypeError):
    """Values were drawn from a selection of laws without weights."""


class TransformDomainError(MixleError, ValueError):
    """A value outside the domain of a transform."""


class TransformCompatibilityError(MixleError, TypeError):
    """A transform that does not fit the law it is to carry."""


class PayloadError(MixleError, ValueError):
    """A payload frame that is torn, corrupted or of an unknown type."""


class AlteredPayload(PayloadError):
    """A frame that is not as it was sent: its checksum or its length does not hold, and nothing of it was read."""


class RecordsError(MixleError, ValueError):
    """A file of telemetry that cannot be read, holds no records, or holds several runs and none was named."""


class BackendError(MixleError, ValueError):
    """An unknown backend, or an argument that a backend does not take."""


class EncodedDataControlConflictError(BackendError):
    """Controls that would need the rows of a handle to be encoded again."""


class MissingPackage(MixleError, ImportError):
    """An optional package is needed and not installed."""


class HandleClosed(MixleError, RuntimeError):
    """A handle was used after `close`."""


class TaskError(MixleError, RuntimeError):
    """User code failed while a task ran on a shard.

    The raised class is also of the user's own exception type where the two combine; the remote
    traceback is chained as ``__cause__``.

    Attributes
    ----------
    shard, worker : int or None
        Where it happened.
    row : int or None
        Position of the row in the data, if the failing code named one.
    remote_traceback : str
        Traceback text as printed where the task ran.
    """

    shard: int | None = None
    worker: int | None = None
    row: int | None = None
    remote_traceback: str = ""


class WorkerLost(MixleError, RuntimeError):
    """A worker died or fell silent.

    Attributes
    ----------
    worker : int
        Id of the worker.
    shards : tuple of int
        Shards that it held.
    cause : str
        How the loss was told, decoded.
    exitcode : int or None
        Negative signal number or exit code, None if unknown.
    stderr_tail : str
        Last lines the worker wrote to standard error.
    """

    worker: int = -1
    shards: tuple[int, ...] = ()
    cause: str = ""
    exitcode: int | None = None
    stderr_tail: str = ""


class RoundLosses(MixleError, RuntimeError):
    """The losses of one round, raised after everything that arrived was delivered.

    Attributes
    ----------
    losses : tuple of WorkerLost
        One entry per lost worker.
    """

    losses: tuple[WorkerLost, ...] = ()


class CorruptedRows(MixleError, RuntimeError):
    """Rows that changed in memory after they were loaded, of which no clean copy is left."""


class ImpossibleEvidenceError(MixleError, ValueError):
    """Evidence that cannot occur: a start that may keep no row, for example."""


class ArityError(RowError, ContractError):
    """A row with other fields than its model has."""


class CheckpointError(MixleError, ValueError):
    """A checkpoint that cannot be gone on from: torn, of another kind, or of another fit."""


class SourceChanged(MixleError, RuntimeError):
    """A partition that was computed again has other rows than before."""


class MixleWarning(UserWarning):
    """Base of the warnings of a fit, so that they are filtered apart from all others.

    Examples
    --------
    >>> import warnings
    >>> from mixle.errors import ConvergenceWarning
    >>> warnings.simplefilter("error", ConvergenceWarning)  # an unfinished fit is an error here
    """


class ConvergenceWarning(MixleWarning):
    """A fit that ended before it had converged: at a cap, at a rejected step, or at an interrupt."""


class InterruptWarning(ConvergenceWarning):
    """A fit, or a search of several, that Ctrl-C ended; what had been reached is returned."""


class RepairWarning(MixleWarning):
    """A fit that had to leave rows out, because no component supports them."""
