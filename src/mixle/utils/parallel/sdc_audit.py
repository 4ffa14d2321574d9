"""Folds that stop at the first corrupted number, and a corruption to test them with."""

from __future__ import annotations

from mixle._facade import publish
from mixle.utils.parallel.folding.fold import finite_guarded_fold, inject_bit_flip

__all__ = ["finite_guarded_fold", "inject_bit_flip"]

publish(__name__, finite_guarded_fold, inject_bit_flip)
