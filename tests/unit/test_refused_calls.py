"""What fits, tables, plans of faults and packages refuse: each message says what to pass, or what to install."""

import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mixle.cli.page_file import write_page
from mixle.cli.runs import read_run
from mixle.cli.screen import Screen
from mixle.errors import (
    BackendError,
    CheckpointError,
    ContractError,
    EmptyDataError,
    KeyValidationError,
    RecordsError,
    RowError,
    SerializationError,
    SupportError,
)
from mixle.inference import bootstrap, impute, initialize, optimize, seq_estimate
from mixle.inference.checkpoint_file import CheckpointFile
from mixle.inference.streaming import StreamingEstimator
from mixle.stats import (
    BinomialDistribution,
    BinomialEstimator,
    CompositeDistribution,
    GammaEstimator,
    GaussianDistribution,
    MixtureDistribution,
    PoissonDistribution,
    PoissonEstimator,
    RecordDistribution,
    register_model,
)
from mixle.stats.stacking.lanes import each, lanes
from mixle.testing import ChaosPlan
from mixle.testing.backends import backends_of
from mixle.utils.parallel import planner
from mixle.utils.parallel.model_parallel import ModelParallelEstimator
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.planning.json_text import write_text

ONE = PoissonDistribution(1.0)
COUNTS = [1, 2, 3, 2, 4, 1, 0, 2]
DELAYED = SimpleNamespace(__dask_graph__=lambda: None)
PAIRS = MixtureDistribution([CompositeDistribution((GaussianDistribution(m, 1.0),) * 2) for m in (0.0, 5.0)])
RECORDS = MixtureDistribution([RecordDistribution({"a": GaussianDistribution(m, 1.0), "b": PAIRS}) for m in (0.0, 5.0)])
PACKAGES = ["mixle", "mixle.inference", "mixle.stats", "mixle.tables", "mixle.testing", "mixle.utils"]


class Foreign:
    """A handle of nobody here, without rows."""

    def __init__(self, data, estimator, **options):
        pass

    def __len__(self):
        return 0

    def pysp_seq_estimate(self, estimator, prev_estimate):
        return prev_estimate

    def pysp_seq_log_density_sum(self, estimate):
        return 0.0, 0.0

    def pysp_seq_initialize(self, estimator, rng, p):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def pysp_stream_accumulate(self, estimator, model):
        return 0.0, None


class ForeignRows(Foreign):
    def __len__(self):
        return 3


@register_model
class Growing(PoissonDistribution):
    """What its JSON makes is another model."""

    def __init__(self, lam, name=None, keys=None):
        super().__init__(2.0 * lam, name, keys)


class GrowingEstimator(PoissonEstimator):
    def estimate(self, nobs, suff_stat):
        return Growing(super().estimate(nobs, suff_stat).lam)


class Keyless:
    """An accumulator that no keys can tie, and its factory."""

    def make(self):
        return self


class KeylessEstimator(PoissonEstimator):
    def accumulator_factory(self):
        return Keyless()


def checkpoint_of(folder, body):
    CheckpointFile(folder / "fit").write(body)
    return optimize(COUNTS, PoissonEstimator(), checkpoint=folder / "fit")


def standing(folder):
    (folder / "t.html").touch()
    return folder / "t.html"


def on_foreign_backend(_folder):
    planner.register_encoded_data_backend("foreign", Foreign)
    try:
        return bootstrap(PoissonEstimator(), COUNTS, B=2, backend="foreign")
    finally:
        planner._ENCODED_DATA_BACKENDS.pop("foreign")


def streamed(_folder):
    with encoded_data(COUNTS, PoissonEstimator()) as handle:
        StreamingEstimator(PoissonEstimator(), precision="float32").update(enc_data=handle)


CALLS = {
    "resamples that cannot be fitted": (
        lambda _: bootstrap(BinomialEstimator(max_val=5), [7] * 4, B=2, model=BinomialDistribution(0.5, 5)),
        ContractError,
        r"no resample could be fitted; look at one with optimize\(rows, estimator, weights=",
    ),
    "a backend of resamples": (on_foreign_backend, BackendError, "does not run functions of shards; use backend='lo"),
    "a checkpoint that is no JSON": (
        lambda folder: checkpoint_of(folder, b"{"),
        CheckpointError,
        "is a checkpoint that cannot be read: .*; move it away",
    ),
    "a checkpoint of another version": (
        lambda folder: checkpoint_of(folder, json.dumps([1]).encode()),
        CheckpointError,
        "is of another version; move it away",
    ),
    "a handle without rows": (
        lambda _: optimize(None, PoissonEstimator(), enc_data=Foreign(None, None)),
        EmptyDataError,
        "enc_data has no rows; pass at least one",
    ),
    "acceleration of a foreign handle": (
        lambda _: optimize(
            None, PoissonEstimator(), enc_data=ForeignRows(None, None), prev_estimate=ONE, strategy="squarem"
        ),
        ValueError,
        r"needs a handle of this library: encoded_data\(rows, estimator, ...\)",
    ),
    "a checkpoint of what JSON does not hold": (
        lambda folder: optimize(COUNTS, GrowingEstimator(), checkpoint=folder / "fit"),
        SerializationError,
        "needs a model that JSON holds exactly; Growing comes back as another one",
    ),
    "keys that nothing ties": (
        lambda _: optimize(COUNTS, KeylessEstimator(keys="a")),
        KeyValidationError,
        "KeylessEstimator has keys, but its accumulator has no key_merge; it needs one",
    ),
    "a stream that cannot begin": (
        lambda _: StreamingEstimator(GammaEstimator(), init_p=1.0).update([-1.0, -2.0]),
        SupportError,
        "Row 0 .Gamma.: the value is outside the numbers > 0; leave the row out",
    ),
    "a file that stands": (
        lambda folder: write_page([], "t", standing(folder), Screen(None)),
        RecordsError,
        "cannot be written: File exists; name another",
    ),
    "a name that is too long": (
        lambda folder: read_run(str(folder / ("n" * 300))),
        RecordsError,
        "cannot be read: File name too long; make it readable",
    ),
    "other columns": (
        lambda _: impute(RECORDS, pd.DataFrame({"a": ["x"], "c": [2.0]})),
        ContractError,
        r"the rows have the fields \['a', 'c'\], the model has \['a', 'b'\]; pass those",
    ),
    "an array of one column": (
        lambda _: impute(PAIRS, pd.DataFrame({"a": [1.0]})),
        ContractError,
        r"an array of shape \(1, 1\), the model has the fields \[0, 1\]; pass those",
    ),
    "an array of numbers": (lambda _: impute(PAIRS, np.zeros(3)), ContractError, r"an array of shape \(3,\)"),
    "rows of another length": (
        lambda _: impute(PAIRS, [(1.0, None), (1.0, 2.0, 3.0)]),
        ContractError,
        r"row 1 \(.*has other fields than the model, which has \[0, 1\]; pass those",
    ),
    "a row of those kept": (
        lambda _: initialize([0, 1, "b", 2], PoissonEstimator(), np.random.RandomState(1), 1.0),
        RowError,
        "^Row 2 ",
    ),
    "precision of encoded rows": (
        streamed,
        BackendError,
        r"cannot change rows that are encoded already; pass it to encoded_data\(rows, estimator\)",
    ),
    "a cluster's collection": (
        lambda _: seq_estimate([DELAYED], PoissonEstimator(), PoissonDistribution(1.0)),
        TypeError,
        "is no list of chunks; pass encoded_data",
    ),
    "no backend": (lambda _: backends_of(" , "), ValueError, "write for example --mixle-backends=local,mp"),
    "no bit": (lambda _: ChaosPlan().corrupt(None), ContractError, "bit must be a whole number from 0 on"),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_is_refused_says_what_to_do(what, tmp_path):
    call, error, message = CALLS[what]
    with pytest.raises(error, match=message):
        call(tmp_path)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_that_a_package_lacks_is_an_attribute_error(name):
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=rf"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
    assert "nothing" not in dir(package)


@pytest.mark.parametrize(
    ("package", "code", "hint"),
    [
        ("sklearn", "import mixle.sklearn", "pip install 'mixle[sklearn]'"),
        ("pyarrow", "import mixle; mixle.schema('t.parquet')", "pip install 'mixle[tables]'"),
    ],
)
def test_without_a_package_the_error_says_what_to_install(package, code, hint, tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from mixle.errors import MissingPackage\n"
        f"try: {code}\n"
        "except MissingPackage as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert hint in done.stdout


def test_a_wrapper_has_what_it_wraps_and_nothing_of_the_language():
    estimator = ModelParallelEstimator(PoissonEstimator(2.0), 2)
    assert estimator.pseudo_count == 2.0
    with pytest.raises(AttributeError, match="ModelParallelEstimator has no __nothing__"):
        estimator.__nothing__  # noqa: B018


def test_a_text_that_cannot_be_written_leaves_what_was_there(tmp_path):
    place = tmp_path / "plan.json"
    write_text(place, "before")
    with pytest.raises(UnicodeEncodeError):
        write_text(place, "\ud800")
    assert place.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_the_first_error_of_several_threads_is_raised_after_all_have_ended():
    ended = []

    def fail(part):
        ended.append(part)
        raise LookupError(part)

    with lanes(2), pytest.raises(LookupError, match="0"):
        each(fail, [0, 1])
    assert sorted(ended) == [0, 1]
