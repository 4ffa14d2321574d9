"""Where a model can be divided, what each part costs, and which device should own it."""

from __future__ import annotations

from mixle._facade import publish
from mixle.stats.decomposition import DecompAxis, Decomposition, ReductionOp
from mixle.utils.parallel.planning.axes import (
    AxisCandidate,
    ModelCut,
    ModelDecomposition,
    best_parallel_axis,
    decompose_model,
    tree_axes,
)
from mixle.utils.parallel.planning.costs import (
    NodeSize,
    compute_cost,
    cost_children,
    shard_children,
    size_model_tree,
    subtree_work,
)

__all__ = [
    "AxisCandidate",
    "DecompAxis",
    "Decomposition",
    "ModelCut",
    "ModelDecomposition",
    "NodeSize",
    "ReductionOp",
    "best_parallel_axis",
    "compute_cost",
    "cost_children",
    "decompose_model",
    "shard_children",
    "size_model_tree",
    "subtree_work",
    "tree_axes",
]

publish(
    __name__,
    AxisCandidate,
    ModelCut,
    ModelDecomposition,
    NodeSize,
    best_parallel_axis,
    compute_cost,
    cost_children,
    decompose_model,
    shard_children,
    size_model_tree,
    subtree_work,
    tree_axes,
)
