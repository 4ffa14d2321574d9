"""What the tests of all engines share: rows of mixed types, cut unevenly, and what a fit of them says on a thread."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise

import numpy as np

import mixle.stats as st
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import encoded_data
from traces import trace

SIZES = (1, 90, 0, 149, 60)
CUTS = tuple(pairwise(accumulate((0, *SIZES))))
MIXED = st.MixtureEstimator(
    [
        st.CompositeEstimator(
            [
                st.GaussianEstimator(),
                st.CategoricalEstimator(),
                st.OptionalEstimator(st.PoissonEstimator(), est_prob=True),
            ]
        )
    ]
    * 2
)


@cache
def mixed_rows():
    rng = np.random.RandomState(3)
    n = sum(SIZES)
    x, label, count = rng.randn(n), rng.choice(list("xyz"), n), rng.poisson(3.0, n)
    return [(float(x[i]), str(label[i]), None if i % 7 == 0 else int(count[i])) for i in range(n)]


def parts():
    """Return the rows of each partition, one of them empty."""
    return [mixed_rows()[a:b] for a, b in CUTS]


@cache
def local_trace():
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as handle:
        return trace(handle, MIXED)


def columns():
    x, label, count = zip(*mixed_rows(), strict=True)
    return {"x": list(x), "label": list(label), "count": list(count)}


def write_parquet(folder):
    """Write each partition as a file, named so that the order of names is that of partitions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = pa.schema([("x", pa.float64()), ("label", pa.string()), ("count", pa.int64())])
    for number, (a, b) in enumerate(CUTS):
        table = pa.table({name: values[a:b] for name, values in columns().items()}, schema=kinds)
        pq.write_table(table, folder / f"part-{number}.parquet")


def wide_rows():
    """Return 300 rows and a model: with a shard each they are more than one group of the fold."""
    from mixle.inference import optimize

    rows = mixed_rows()
    return rows, optimize(rows, MIXED, max_its=2, delta=None, seed=1)
