"""What is said of each row, as a collection of Dask."""

from __future__ import annotations

from typing import Any

from mixle.errors import MissingPackage
from mixle.utils.parallel.folding.faults import RemoteFault, surface

__all__ = ["as_collection", "raise_first"]


def raise_first(heads: list[tuple[int, tuple[Any, ...]]]) -> None:
    """Raise the error of the first shard that has one.

    Raises
    ------
    TaskError
        It is also of the user's own type.
    """
    for shard, (fault, _) in heads:
        if fault is not None:
            raise surface(RemoteFault(*fault), shard)


def as_collection(name: str, futures: list[Any], sizes: list[int], form: Any) -> Any:
    """Return blocks that lie on the workers as one collection; they go when it does.

    Parameters
    ----------
    name : str
        Of the collection; unique.
    futures : list of Future
        Blocks; their keys are (name, number), with another 0 for each further axis of an array.
    sizes : list of int
        Rows of each block.
    form : tuple or None
        (shape of a row, data type); None for rows of unlike shape, which make a Bag.

    Raises
    ------
    MissingPackage
        If Dask was installed without what its arrays or bags need.
    """
    graph = {future.key: future for future in futures}
    try:
        if form is None:
            import dask.bag as db

            return db.Bag(graph, name, len(futures))
        import dask.array as da
    except ImportError as error:
        raise MissingPackage(
            f'rows as a collection need more of Dask ({error}): pip install "dask[array,bag]"'
        ) from error
    shape, kind = form
    chunks = (tuple(sizes), *((width,) for width in shape))
    return da.Array(graph, name, chunks, dtype=kind)
