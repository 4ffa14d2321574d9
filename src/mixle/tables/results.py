"""What a fit of a table is: the model, what it says of rows, and its file."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixle.errors import SchemaError, SerializationError
from mixle.inference.selecting import Candidate
from mixle.stats.table import Table
from mixle.tables.reading import as_told
from mixle.tables.schemas import Schema
from mixle.tables.summaries import Summary, summary
from mixle.tables.words import explain_text, report_lines

__all__ = ["Candidate", "Fit", "load"]

#: Version of the file; a newer one is refused.
FORMAT = 1
_BLOCK = 65536


class Fit:
    """A mixture fitted to a table.

    Parameters
    ----------
    model : MixtureDistribution
        Mixture of records, one field for each used column.
    schema : Schema
        Families of the columns.
    tried : tuple of Candidate
        What was tried; the model is that with the least BIC.
    backend : str
        Where it was fitted.
    rows : Table, optional
        The fitted rows; a fit that was read from a file has none.

    Examples
    --------
    >>> import mixle
    >>> fitted = mixle.fit({"grams": [2.0, 9.5, 2.25, 9.0] * 10}, components=2)
    >>> fitted.predict({"grams": [2.1, 9.2]}).tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        model: Any,
        schema: Schema,
        tried: tuple[Candidate, ...] = (),
        backend: str = "local",
        rows: Table | None = None,
    ) -> None:
        self.model, self.schema, self.tried, self.backend, self._rows = model, schema, tried, backend, rows

    @property
    def chosen(self) -> Candidate:
        """The candidate that the model is."""
        return min(self.tried, key=lambda candidate: (candidate.bic, candidate.parameters))

    @property
    def bic(self) -> float:
        """Bayesian information criterion (Schwarz 1978); less is better."""
        return self.chosen.bic

    @property
    def aic(self) -> float:
        """Akaike's criterion, −2 × log-likelihood + 2 × parameters (Akaike 1974); less is better."""
        return 2.0 * self.chosen.parameters - 2.0 * self.chosen.log_likelihood

    @cached_property
    def clusters(self) -> np.ndarray:
        """The cluster of each fitted row, int64 of shape (n,); kept rows only, so not after `load`.

        Raises
        ------
        SchemaError
            If the fit was read from a file: ``predict(data)`` tells the clusters of a table.
        """
        if self._rows is None:
            raise SchemaError("a fit from a file does not hold its rows; fitted.predict(data) tells their clusters")
        return self.predict(self._rows)

    def predict_proba(self, data: Any) -> np.ndarray:
        """Return the probability of each cluster for each row, shape (n, K).

        A value that no cluster thinks possible (a label never seen) says nothing about the cluster: the other columns
        decide.

        Parameters
        ----------
        data : table or path
            Rows with the used columns.

        Raises
        ------
        SchemaError
            For a table without one of the columns.
        RowError
            Naming the row and column of a value that a family cannot read.
        """
        return np.concatenate([self._responsibilities(part) for part in self._parts(data)])

    def predict(self, data: Any) -> np.ndarray:
        """Return the most probable cluster of each row, int64 of shape (n,).

        Parameters
        ----------
        data : table or path
            Rows with the used columns.
        """
        return np.asarray(self.predict_proba(data).argmax(axis=1))

    def score_rows(self, data: Any) -> np.ndarray:
        """Return the log-density of each row in nats, shape (n,); −inf for a row that no cluster supports.

        Parameters
        ----------
        data : table or path
            Rows with the used columns.
        """
        return np.concatenate([self.model.seq_log_density(self._encoded(part)) for part in self._parts(data)])

    def score(self, data: Any) -> float:
        """Return the mean log-density of the rows in nats.

        Parameters
        ----------
        data : table or path
            Rows with the used columns.
        """
        return float(self.score_rows(data).mean())

    def sample(self, size: int, seed: int | None = None) -> dict[Any, list[Any]]:
        """Return drawn rows as a mapping of columns.

        Parameters
        ----------
        size : int
            Number of rows.
        seed : int, optional
            Equal seeds give equal rows.

        Returns
        -------
        dict
            A list for each used column; dates and durations as such.

        Raises
        ------
        SchemaError
            If `size` is not a whole number of at least 0.
        """
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
            raise SchemaError(f"size must be a whole number of at least 0, not {size!r:.80}")
        return self.schema.told(self.model.sampler(seed).sample(size))

    def impute(self, data: Any, how: str = "mean", seed: int = 0) -> dict[Any, Any]:
        """Return the used columns with their missing values filled in, given the values that are there.

        Parameters
        ----------
        data : table or path
            Rows with the used columns.
        how : {"mean", "draw"}
            As for `mixle.inference.impute`: expected numbers and likeliest labels, or a draw.
        seed : int
            Seed of the draws.

        Returns
        -------
        dict
            A column for each used one; dates and durations as such.
        """
        from mixle.inference import impute

        rows = self.schema.read(_one_row(data))
        filled = impute(self.model, rows, how, seed)
        return {field.name: as_told(filled[field.name], field.conversion) for field in self.schema.used}

    def explain(self, data: Any, row: int = 0) -> Explanation:
        """Return which columns spoke for the cluster of a row, against the runner-up.

        Parameters
        ----------
        data : mapping, table or path
            One row as a mapping from column to value, or a table.
        row : int
            Position of the row in the table.

        Raises
        ------
        SchemaError
            With a single cluster, or a position outside the table.
        """
        if len(self.model.components) < 2:
            raise SchemaError(
                "a fit with one cluster has no runner-up to explain a row against; pass components=2 or more"
            )
        rows = self.schema.read(_one_row(data))
        if isinstance(row, bool) or not hasattr(row, "__index__"):
            raise SchemaError(f"row is the position of a row, not {row!r:.80}; pass one from 0 to {len(rows) - 1}")
        if not -len(rows) <= row < len(rows):
            raise SchemaError(f"row {row} is not in a table of {len(rows)} rows; pass one from 0 to {len(rows) - 1}")
        row %= len(rows)
        payload = self._encoded(rows[row : row + 1])
        chance = self._responsibilities(rows[row : row + 1])[0]
        fields = self._by_field(payload)[:, 0, :]
        known = np.isfinite(fields).any(axis=1)
        scores = np.where(known[:, None], fields, 0.0).sum(axis=0) + self.model.log_w
        best, second = np.lexsort((-scores, -chance))[:2].tolist()
        with np.errstate(invalid="ignore"):
            gain = np.where(known, fields[:, best] - fields[:, second], 0.0)
        named = dict(zip([field.name for field in self.schema.used], gain.tolist(), strict=True))
        prior = float(self.model.log_w[best] - self.model.log_w[second])
        told = self.schema.told([rows[int(row)]])
        given = {name: column[0] for name, column in told.items()}
        return Explanation(best, second, float(chance[best]), float(chance[second]), prior, named, given)

    def summary(self) -> str:
        """Return the clusters in words, the heaviest first."""
        return str(self._summary())

    def report(self) -> str:
        """Return how the model was fitted, and what was tried."""
        return "\n".join(report_lines(self))

    def __repr__(self) -> str:
        return f"{self.report()}\n\n{self.summary()}"

    def _repr_html_(self) -> str:
        from html import escape

        report = escape(self.report()).replace("\n", "<br>")
        return f"<div><p>{report}</p>{self._summary()._repr_html_()}</div>"

    def _summary(self) -> Summary:
        return summary(self.model, [(field.name, field.conversion) for field in self.schema.used])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit as JSON: model, schema and what was tried, not the rows. Nothing is pickled.

        Parameters
        ----------
        path : path
            The file; it is replaced at once or not at all.

        Raises
        ------
        OSError
            Naming the file, if it cannot be written.
        """
        import json
        from pathlib import Path

        from mixle import __version__

        content = {
            "mixle": "fit",
            "format": FORMAT,
            "version": __version__,
            "backend": self.backend,
            "schema": self.schema.to_dict(),
            "tried": [asdict(candidate) for candidate in self.tried],
            "model": self.model.to_dict(),
        }
        place = Path(path)
        whole = place.is_file() or not place.exists()  # a device or a pipe is written to, never replaced
        draft = place.parent / f".{place.name}.{os.getpid()}" if whole else place
        try:
            draft.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
            if whole:
                draft.replace(place)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(place)) from None
        finally:
            if whole:
                draft.unlink(missing_ok=True)

    def _parts(self, data: Any) -> list[Table]:
        rows = data if isinstance(data, Table) else self.schema.read(_one_row(data))
        return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]

    def _encoded(self, rows: Table) -> Any:
        return self.model.dist_to_encoder().seq_encode(rows)

    def _responsibilities(self, rows: Table) -> np.ndarray:
        payload = self._encoded(rows)
        found = np.asarray(self.model.seq_posterior(payload))
        lost = np.flatnonzero(~(found.sum(axis=1) > 0.0))
        if lost.size:
            fields = self._by_field(payload)[:, lost, :]
            fields[~np.isfinite(fields).any(axis=2)] = 0.0
            scores = fields.sum(axis=0) + self.model.log_w
            top = scores.max(axis=1, keepdims=True)
            weights = np.where(np.isfinite(top), np.exp(scores - np.where(np.isfinite(top), top, 0.0)), self.model.w)
            found[lost] = weights / weights.sum(axis=1, keepdims=True)
        return found

    def _by_field(self, payload: Any) -> np.ndarray:
        """Return the log-density of each field under each component, shape (fields, n, K)."""
        parts = [payload.of(k) if hasattr(payload, "of") else payload for k in range(len(self.model.components))]
        tables = [
            [law.seq_log_density(part[j]) for component, part in zip(self.model.components, parts, strict=True)
             for law in [component.dists[j]]]
            for j in range(len(self.schema.used))
        ]  # fmt: skip
        return np.moveaxis(np.array(tables, dtype=float), 1, 2)


@dataclass(frozen=True)
class Explanation:
    """Why a row belongs to its cluster.

    Attributes
    ----------
    cluster, runner_up : int
        The most probable cluster and the next.
    probability, runner_up_probability : float
        Of the two.
    weight : float
        Log-ratio of the two clusters' weights.
    fields : dict
        For each column its log-density under the cluster minus that under the runner-up, in nats.
    row : dict
        The row.
    """

    cluster: int
    runner_up: int
    probability: float
    runner_up_probability: float
    weight: float
    fields: dict[Any, float]
    row: dict[Any, Any]

    def __str__(self) -> str:
        return explain_text(self)

    __repr__ = __str__


def _one_row(data: Any) -> Any:
    """Return `data` as a table; a mapping of single values is one row."""
    if isinstance(data, dict) and all(not hasattr(v, "__len__") or isinstance(v, (str, bytes)) for v in data.values()):
        return [data]
    return data


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit that `Fit.save` wrote. Nothing is unpickled.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    SerializationError
        If the file is no fit, is damaged, or was written in a newer format.
    """
    import json
    from pathlib import Path

    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SerializationError(
            f"{os.fspath(path)} is not a fit saved by mixle: it is no JSON ({error}); use what fitted.save wrote"
        ) from None
    if not isinstance(content, dict) or content.get("mixle") != "fit":
        raise SerializationError(f"{os.fspath(path)} is not a fit saved by mixle; fitted.save(path) writes one")
    if not isinstance(content.get("format"), int) or content["format"] > FORMAT:
        raise SerializationError(
            f"{os.fspath(path)} was written in format {content.get('format')!r} by mixle {content.get('version')}; "
            f"this version reads up to {FORMAT}: load it with that version or a newer one"
        )
    from mixle.stats import MixtureDistribution

    try:
        tried = tuple(Candidate(**candidate) for candidate in content["tried"])
        model = MixtureDistribution.from_dict(content["model"])
        return Fit(model, Schema.from_dict(content["schema"]), tried, str(content["backend"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SerializationError(
            f"{os.fspath(path)} is a damaged fit: {type(error).__name__}: {error}; use another copy"
        ) from None
