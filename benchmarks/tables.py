"""What it costs to encode a table: ``python benchmarks/tables.py``, needs pandas.

A frame of a million rows and 20 columns is read by its schema and encoded, as `mixle.fit` does before the first
iteration; that is compared with what pandas needs to factorize the columns of text and to copy the others. CPU seconds,
in turns, medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import mixle
from mixle.utils.parallel.planner import encoded_data

ROWS, TURNS = 1_000_000, 7
LABELS = (2, 5, 12, 30, 100, 300, 1_000, 3_000)


def frame(dtype: str) -> pd.DataFrame:
    """Return eight columns of text of a type and twelve others: floats, some missing, integers, truths, dates."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for number, labels in enumerate(LABELS):
        names = np.array([f"label {label}" for label in range(labels)], dtype=object)
        columns[f"text{number}"] = pd.Series(names[rng.integers(0, labels, ROWS)], dtype=dtype)
    for number in range(6):
        columns[f"real{number}"] = rng.normal(number, 1.0 + number, ROWS)
    for number in range(2):
        gaps = rng.normal(size=ROWS)
        gaps[rng.random(ROWS) < 0.1] = np.nan
        columns[f"gaps{number}"] = gaps
    columns["count"] = rng.poisson(4.0, ROWS)
    columns["code"] = rng.integers(0, 7, ROWS)
    columns["truth"] = rng.random(ROWS) < 0.3
    columns["date"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 365, ROWS), unit="D")
    return pd.DataFrame(columns)


def turns(*calls: Callable[[], Any]) -> list[float]:
    """Return the median CPU seconds of each call, the calls taken in turns."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        for call, found in zip(calls, seconds, strict=True):
            start = time.process_time()
            call()
            found.append(time.process_time() - start)
    return [statistics.median(found) for found in seconds]


def main() -> None:
    """Print the ratio for text as Python objects, as pandas' own text, and as its categories."""
    for dtype in ("object", "str", "category"):
        data = frame(dtype)
        schema = mixle.schema(data)
        estimator = schema.estimator(2)
        texts = [name for name in data if name.startswith("text")]
        numbers = [name for name in data if name not in texts]

        def pandas(data: Any = data, texts: Any = texts, numbers: Any = numbers) -> None:
            for name in texts:
                pd.factorize(data[name])
            for name in numbers:
                data[name].to_numpy(copy=True)

        def ours(data: Any = data, schema: Any = schema, estimator: Any = estimator) -> None:
            encoded_data(schema.read(data), estimator, num_shards=1).close()

        one, other = turns(pandas, ours)
        print(
            f"{dtype}: {ROWS:,} rows of {data.shape[1]} columns, pandas {one:.2f} s, encoded in {other:.2f} s:", end=" "
        )
        print(f"{other / one:.2f} x")


if __name__ == "__main__":
    main()
