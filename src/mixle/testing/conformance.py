"""A suite that a backend of another package runs to see that it is one."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mixle.errors import RowError
from mixle.testing.bits import bits, documented_trace, trace
from mixle.testing.cases import CASES, PAIRS, SPLITS, Limit
from mixle.testing.fault import check_word
from mixle.testing.leaks import Census
from mixle.utils.parallel.planner import LocalEncodedData, is_encoded_data_handle

__all__ = ["BackendConformance"]


class BackendConformance:
    """What every backend is held to; subclass it in a test module as ``TestMine``.

    A subclass defines `handle`, and says in `lacks` what its backend does not have. All other tests must pass: the
    documented methods, the bits of the local backend for several models and splits, row weights, errors that name
    shard and row, every shard exactly once in any order, a second `close`, refused pickles, policies, and nothing left
    behind.

    Attributes
    ----------
    lacks : dict of str to str
        Features that the backend does not have, each with the reason, which is shown where its tests are skipped.
        Known are those in `FEATURES`.

    Examples
    --------
    >>> from mixle.utils.parallel.planner import encoded_data
    >>> class TestLocal(BackendConformance):
    ...     lacks = {"close": "it holds nothing"}
    ...
    ...     def handle(self, rows, estimator, **options):
    ...         return encoded_data(rows, estimator, backend="local", **options)
    >>> TestLocal().test_user_errors_name_shard_and_row()
    """

    FEATURES: ClassVar[dict[str, str]] = {
        "bits": "statistics have the bits of the local backend (a backend with arithmetic of its own lacks it)",
        "close": "a closed handle refuses to work",
        "core": "handles have this library's own methods besides the documented ones (transports have)",
        "leaks": "nothing is left behind by a closed handle",
        "policies": "policies= is taken (handles of another framework cannot be wrapped)",
        "shards": "num_shards= is taken",
        "sub_chunks": "sub_chunks= is taken",
        "weights": "weights= is taken",
    }
    lacks: ClassVar[dict[str, str]] = {}

    def handle(self, rows: Any, estimator: Any, **options: Any) -> Any:
        """Return a handle of the backend.

        Parameters
        ----------
        rows : sequence or ndarray
            Rows.
        estimator : ParameterEstimator
            What they are encoded for.
        **options : Any
            Any of ``num_shards``, ``sub_chunks``, ``weights``, ``policies``: pass them on.
        """
        raise NotImplementedError(f"{type(self).__name__} must define handle(self, rows, estimator, **options)")

    # How it runs

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run tests over all models and splits."""
        if {"case", "split"} <= {*metafunc.fixturenames}:
            metafunc.parametrize(("case", "split"), PAIRS)

    def need(self, *features: str) -> None:
        """Skip a test of what the backend lacks, with the reason.

        Parameters
        ----------
        *features : str
            Names of `FEATURES`.
        """
        for feature, reason in self.lacks.items():
            check_word(feature, self.FEATURES, "the feature in lacks")
            if not isinstance(reason, str) or not reason.strip():
                raise ValueError(f"lacks[{feature!r}] must say why, in words")
            if feature in features:
                import pytest

                pytest.skip(f"lacks {feature}: {reason}")

    @contextlib.contextmanager
    def opened(self, rows: Any, estimator: Any, **options: Any) -> Iterator[Any]:
        """Open a handle and close it."""
        handle = self.handle(rows, estimator, **options)
        try:
            yield handle
        finally:
            handle.close()

    # The documented methods

    def test_what_is_made_is_a_handle(self) -> None:
        """The four methods are there, and rows are counted."""
        self.need()
        case = CASES["mixture"]()
        with self.opened(case.rows, case.estimator) as handle:
            assert is_encoded_data_handle(handle), f"{type(handle).__name__} lacks methods of a handle"
            model = handle.pysp_seq_initialize(case.estimator, np.random.RandomState(0), 0.5)
            count, score = handle.pysp_seq_log_density_sum(model)
            assert count == len(case.rows), f"{count} rows were scored, {len(case.rows)} were given"
            assert np.isfinite(score)
            nobs, _ = handle.pysp_stream_accumulate(case.estimator, model)
            assert nobs == len(case.rows), f"{nobs} rows are in the statistic, {len(case.rows)} were given"
            better = handle.pysp_seq_estimate(case.estimator, model)
            assert handle.pysp_seq_log_density_sum(better)[1] >= score - 1e-9 * abs(score), "EM went down"

    def test_bits_are_those_of_the_local_backend(self, case: str, split: str) -> None:
        """Same shards, same bits, for every model and split."""
        self.need("bits", "shards")
        options = SPLITS[split]()
        if "sub_chunks" in options:
            self.need("sub_chunks")
        rows, estimator = CASES[case]()
        said = documented_trace if "core" in self.lacks else trace
        with self.opened(rows, estimator, **options) as handle:
            found = said(handle, estimator)
        assert found == said(LocalEncodedData(rows, estimator, **options), estimator), f"{case}, {split}: other bits"

    def test_rounds_repeat_their_bits(self) -> None:
        """The same call twice says the same, whatever the order of replies."""
        self.need()
        rows, estimator = CASES["records"]()
        with self.opened(rows, estimator) as handle:
            assert documented_trace(handle, estimator) == documented_trace(handle, estimator)

    def test_row_weights(self) -> None:
        """Weights count as they do locally, zeros too."""
        self.need("weights", "shards")
        rows, estimator = CASES["mixture"]()
        weights = np.linspace(0.0, 2.0, len(rows))
        with self.opened(rows, estimator, weights=weights, num_shards=3) as handle:
            found = documented_trace(handle, estimator)
        wanted = documented_trace(LocalEncodedData(rows, estimator, weights=weights, num_shards=3), estimator)
        assert found == wanted

    # Errors

    def test_bad_rows_are_named_by_their_position(self) -> None:
        """A row that cannot be read is refused before work starts."""
        self.need("core", "shards")
        rows: list[Any] = _plain()
        rows[17] = "no number"
        error = self._refused(RowError, lambda: self.handle(rows, CASES["mixture"]().estimator, num_shards=3))
        assert error.row == 17, f"row {error.row} is named, row 17 is the bad one"

    def test_user_errors_name_shard_and_row(self) -> None:
        """An exception of a model's is a RuntimeError and its own type, and the handle works again after it."""
        self.need("core", "shards")
        rows, estimator = _plain(), CASES["mixture"]().estimator
        with self.opened(rows, estimator, num_shards=3) as handle:
            model = handle.pysp_seq_estimate(estimator, handle.pysp_seq_initialize(estimator, 1, 1.0))
            wanted = handle.pysp_seq_log_density_sum(model)
            scores = np.array([model.log_density(row) for row in rows])
            worst = int(np.argmin(scores))
            failing = Limit(model, float(np.sort(scores)[:2].mean()))
            error = self._refused(RowError, lambda: handle.pysp_seq_log_density_sum(failing))
            assert isinstance(error, RuntimeError), f"a {type(error).__name__} is no RuntimeError"
            assert getattr(error, "shard", None) == worst % 3, f"shard {getattr(error, 'shard', None)} is named"
            assert getattr(error, "row", None) == worst, (
                f"row {getattr(error, 'row', None)} is named, row {worst} is the one"
            )
            assert handle.pysp_seq_log_density_sum(model) == wanted, "the next call is not served as before"

    def _refused(self, kind: type[Exception], call: Any) -> Any:
        try:
            call()
        except kind as error:
            return error
        except Exception as error:
            raise AssertionError(f"a {kind.__name__} was due, not {type(error).__name__}: {error}") from error
        raise AssertionError(f"a {kind.__name__} was due, and nothing was raised")

    # The transport

    def test_every_shard_is_delivered_once(self) -> None:
        """`map` yields one result per shard, in any order, with its rows."""
        self.need("core", "shards")
        from mixle.utils.parallel.folding.tasks import Score

        rows, estimator = CASES["mixture"]()
        with self.opened(rows, estimator, num_shards=7) as handle:
            model = handle.pysp_seq_initialize(estimator, 1, 1.0)
            results = list(handle.transport.map(Score(model)))
            shards = sorted(result.shard for result in results)
            assert shards == list(range(7)), f"shards {shards} were delivered, one each of 0 ... 6 is due"
            assert {r.shard: r.rows for r in results} == dict(handle.transport.sizes)
            assert sum(result.rows for result in results) == len(rows)

    def test_functions_of_shards(self) -> None:
        """`apply` gives the rows of each shard in the order of the map."""
        self.need("core", "shards")
        rows, estimator = CASES["mixture"]()
        with self.opened(rows, estimator, num_shards=3) as handle:
            model = handle.pysp_seq_initialize(estimator, 1, 1.0)
            found = handle.pysp_seq_log_density(model)
        wanted = LocalEncodedData(rows, estimator, num_shards=3).pysp_seq_log_density(model)
        assert bits(found) == bits(wanted)

    def test_policies_compose(self) -> None:
        """Retry, audit's checks and a plan of faults go around it, and the bits stay."""
        self.need("policies", "core", "shards")
        from mixle.testing.chaos import ChaosPlan
        from mixle.utils.parallel.policies.retry import Retry

        rows, estimator = CASES["mixture"]()
        plan = ChaosPlan().raise_(KeyError("planned"), round=2, shard=4).delay(0.001, round=1, times=1)
        with self.opened(rows, estimator, num_shards=7, policies=[Retry(2), plan]) as handle:
            start = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
            first = handle.pysp_seq_estimate(estimator, start)
            error = self._refused(KeyError, lambda: handle.pysp_seq_estimate(estimator, first))
            assert (isinstance(error, RuntimeError), getattr(error, "shard", None)) == (True, 4)
            digest = handle.pysp_seq_estimate(estimator, first).digest()
        plan.check()
        local = LocalEncodedData(rows, estimator, num_shards=7)
        assert digest == local.pysp_seq_estimate(estimator, local.pysp_seq_estimate(estimator, start)).digest()

    # The end

    def test_close_may_be_called_again(self) -> None:
        """The second `close` does nothing; so does the end of a with block."""
        self.need()
        rows, estimator = CASES["leaf"]()
        handle = self.handle(rows, estimator)
        handle.close()
        handle.close()
        with self.handle(rows, estimator) as handle:
            assert handle.pysp_seq_estimate(estimator, None) is not None
        handle.close()

    def test_a_closed_handle_refuses_to_work(self) -> None:
        """RuntimeError, and no hang."""
        self.need("close")
        rows, estimator = CASES["leaf"]()
        handle = self.handle(rows, estimator)
        handle.close()
        self._refused(RuntimeError, lambda: handle.pysp_seq_estimate(estimator, None))

    def test_handles_are_not_pickled(self) -> None:
        """TypeError: a handle holds workers of this process."""
        self.need("core")
        rows, estimator = CASES["leaf"]()
        with self.opened(rows, estimator) as handle:
            self._refused(TypeError, lambda: pickle.dumps(handle))

    def test_nothing_is_left_behind(self) -> None:
        """No process, thread, descriptor or segment outlives a handle, after an error neither."""
        self.need("leaks")
        rows, estimator = _plain(), CASES["mixture"]().estimator
        self._use(rows, estimator)  # what is made once and kept is no leak
        census = Census()
        for _ in range(2):
            self._use(rows, estimator)
        census.check()

    def _use(self, rows: Any, estimator: Any) -> None:
        with self.opened(rows, estimator) as handle:
            model = handle.pysp_seq_initialize(estimator, np.random.RandomState(0), 0.5)
            handle.pysp_seq_estimate(estimator, model)
        with contextlib.suppress(Exception):
            self.handle([*rows, "no number"], estimator).close()


def _plain() -> list[Any]:
    """Return rows as a list of floats."""
    rows: list[Any] = CASES["mixture"]().rows.tolist()
    return rows
