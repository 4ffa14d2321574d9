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


@cache
def row_models():
    """Return a mixture of the mixed rows, and a hidden Markov model with sequences of unlike length."""
    from mixle.inference import optimize

    rows = mixed_rows()
    mixture = optimize(rows, MIXED, max_its=2, delta=None, seed=1)
    chains = [[row[0] for row in rows[i : i + 1 + i % 4]] for i in range(0, 40, 2)]
    states = st.HiddenMarkovEstimator([st.GaussianEstimator()] * 2)
    return {
        "mixture": (rows, MIXED, mixture),
        "chains": (chains, states, optimize(chains, states, max_its=2, delta=None, seed=1)),
    }


def check_row_output(handle, model, local, fetch):
    """Compare what an engine's collections say of each row with what one thread says, to the bit.

    `fetch` returns the rows of a collection, in their order.
    """
    for kind in ("score_samples", "posterior", "predict"):
        found = [np.asarray(row) for row in fetch(getattr(handle, kind)(model))]
        wanted = [np.asarray(row) for row in getattr(local, kind)(model)]
        assert [row.tobytes() for row in found] == [row.tobytes() for row in wanted], kind
        assert {row.shape for row in found} == {row.shape for row in wanted}
