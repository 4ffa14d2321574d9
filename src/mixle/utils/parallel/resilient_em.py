"""Folds that can be checkpointed at any point."""

from __future__ import annotations

from mixle._facade import publish
from mixle.utils.parallel.folding.fold import checkpointed_fold

__all__ = ["checkpointed_fold"]

publish(__name__, checkpointed_fold)
