"""What an audit writes down about two workers that disagree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from mixle._log import note

__all__ = ["ENVELOPE", "EXACT", "SDCAuditReceipt", "first_difference", "mismatches"]

ENVELOPE = "typed_numeric_envelope/v1"
EXACT = "exact/v1"


@dataclass
class SDCAuditReceipt:
    """A structured record of one detected primary-vs-audit mismatch: shard, ranks, and what differed.

    Attributes
    ----------
    round : int
        Number of the audit, from 1.
    shard_id : int
        The shard.
    primary_worker, audit_worker : int
        Who delivered the payload that was to be folded, and who recomputed it (-1: the driver, where no other worker
        could).
    primary_nbytes, audit_nbytes : int
        Bytes of the pickled payloads ``(count, value)``.
    first_diff_byte_offset : int or None
        First byte in which they differ; the length of the shorter one if it is the other's beginning; None if they
        are equal.
    primary_sha256, audit_sha256 : str
        Digests of these bytes.
    comparison_mode : str
        "typed_numeric_envelope/v1", or "exact/v1" for a difference inside the envelope between workers whose builds
        give equal bits.
    audit_rtol, audit_atol : float
        The envelope: ``|a - b| <= atol + rtol * max(|a|, |b|)``.
    max_abs_error, max_rel_error : float
        Largest errors seen up to the first mismatch; infinite for a payload that cannot be read.
    mismatch_reason : str
        Where and how they differ, for example ``statistic[1][0]: numeric error exceeds tolerance``.
    primary_canonical_sha256, audit_canonical_sha256 : str
        Digests of the typed statistics, whatever the order of mappings and the bytes of the pickle.
    witness_worker : int or None
        The third worker that was asked.
    suspected_workers : tuple of int
        Who stands alone against two others.
    quarantine_status : str
        "not_requested", "disabled", "committed", "not_needed", or "deferred:" and the reason.
    primary_value_repr, audit_value_repr : str
        The payloads as text, cut at 2000 characters.

    Examples
    --------
    >>> SDCAuditReceipt(3, 7, 0, 1, 180, 180, 65, "a", "b").summary()
    'SDC audit mismatch: shard=7 round=3 primary=0 audit=1 witness=None suspects=() quarantine=not_requested: '
    """

    round: int
    shard_id: int
    primary_worker: int
    audit_worker: int
    primary_nbytes: int
    audit_nbytes: int
    first_diff_byte_offset: int | None
    primary_sha256: str
    audit_sha256: str
    comparison_mode: str = ENVELOPE
    audit_rtol: float = 0.0
    audit_atol: float = 0.0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    mismatch_reason: str = ""
    primary_canonical_sha256: str = ""
    audit_canonical_sha256: str = ""
    witness_worker: int | None = None
    suspected_workers: tuple[int, ...] = ()
    quarantine_status: str = "not_requested"
    primary_value_repr: str = field(default="", repr=False)
    audit_value_repr: str = field(default="", repr=False)

    def summary(self) -> str:
        """Return one line that says what happened."""
        errors = ""
        if self.max_abs_error and math.isfinite(self.max_abs_error):
            errors = f" (max error {self.max_abs_error:.3g}, relative {self.max_rel_error:.3g})"
        return (
            f"SDC audit mismatch: shard={self.shard_id} round={self.round} primary={self.primary_worker} "
            f"audit={self.audit_worker} witness={self.witness_worker} suspects={self.suspected_workers} "
            f"quarantine={self.quarantine_status}: {self.mismatch_reason}{errors}"
        )


def mismatches(receipts: Iterable[SDCAuditReceipt]) -> list[SDCAuditReceipt]:
    """Return the receipts of differences outside the envelope, and log them where someone listens."""
    found = [one for one in receipts if one.comparison_mode == ENVELOPE]
    for one in found:
        facts = {"worker": one.primary_worker, "shard": one.shard_id, "suspects": one.suspected_workers}
        note("error", "audit", one.summary(), **facts)
    return found


def first_difference(left: bytes, right: bytes) -> int | None:
    """Return the first offset at which two byte strings differ, None if they are equal.

    Examples
    --------
    >>> first_difference(b"abc", b"abd"), first_difference(b"ab", b"abc"), first_difference(b"", b"")
    (2, 2, None)
    """
    if left == right:
        return None
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:  # the beginnings up to `low` are equal, those up to `high` are not
        middle = (low + high) // 2
        low, high = (middle, high) if left[low:middle] == right[low:middle] else (low, middle)
    return low
