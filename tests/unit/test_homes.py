"""Where user code of the published package finds the names that it imports."""

import inspect
import subprocess
import sys

import pytest

import mixle.errors
import mixle.inference
import mixle.inference.streaming
import mixle.stats
import mixle.utils.parallel as parallel
from mixle.utils.parallel import balance, model_parallel, planner
from mixle.utils.parallel.mpi import MPIEncodedData
from mixle.utils.parallel.multiprocessing import MPEncodedData
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData


def test_the_package_hands_out_the_names_of_its_pages():
    for name in parallel.__all__:
        home = planner if hasattr(planner, name) else model_parallel
        assert getattr(parallel, name) is getattr(home, name)
    assert set(parallel.__all__) <= set(dir(parallel))
    assert parallel.balance is balance
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        _ = parallel.plans


@pytest.mark.parametrize("name", ["balance", "em_observability", "model_decomposition", "model_parallel", "planner"])
def test_a_page_is_an_attribute_of_the_package_that_was_imported(name):
    code = f"import mixle.utils.parallel; print(mixle.utils.parallel.{name}.__name__)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == f"mixle.utils.parallel.{name}\n"


def test_a_control_that_a_handle_cannot_take_is_an_error_of_its_own():
    from mixle.utils.parallel.planner import EncodedDataControlConflictError

    assert EncodedDataControlConflictError is parallel.EncodedDataControlConflictError
    handle = parallel.encoded_data([1.0, 2.0], mixle.stats.GaussianEstimator())
    assert parallel.encoded_data(handle, backend="mpi") is handle
    with pytest.raises(EncodedDataControlConflictError, match="num_chunks, sub_chunks cannot be applied") as caught:
        parallel.encoded_data(handle, num_chunks=2, sub_chunks=3)
    assert isinstance(caught.value, ValueError)


def test_streaming_is_found_beside_optimize():
    for name in ("IncrementalEstimator", "StreamingEstimator"):
        assert getattr(mixle.inference, name) is getattr(mixle.inference.streaming, name)
    assert mixle.inference.ImpossibleEvidenceError is mixle.errors.ImpossibleEvidenceError


@pytest.mark.parametrize(
    "family",
    ["Conditional", "ConditionalBranch", "IntegerMarkovChain", "MarkovChain", "Select", "Sequence", "Transform",
     "Truncated", "Weighted"],
)  # fmt: skip
def test_statistics_are_found_beside_their_families(family):
    found = getattr(mixle.stats, f"{family}Statistics")
    assert issubclass(found, tuple)
    assert found.__name__ == f"{family}Statistics"


def test_errors_are_found_beside_the_families_that_raise_them():
    for name in ("BernoulliSetFitError", "NeutralFactorError", "NonGenerativeSequenceError", "VonMisesFitError"):
        assert getattr(mixle.stats, name) is getattr(mixle.errors, name)
    for name in ("NoSuchError", "__all__s", "TYPE_CHECKINGS", "annotation"):
        with pytest.raises(AttributeError, match="no attribute"):
            getattr(mixle.stats, name)


def test_other_names_of_two_estimators():
    assert mixle.stats.ConditionalDistributionEstimator is mixle.stats.ConditionalEstimator
    assert mixle.stats.HiddenMarkovModelEstimator is mixle.stats.HiddenMarkovEstimator


@pytest.mark.parametrize(
    ("handle", "names"),
    [
        (MPEncodedData, "data estimator encoder num_workers sub_chunks response_timeout shutdown_timeout"),
        (MPIEncodedData, "data estimator encoder sub_chunks comm root root_only"),
        (ResilientMPEncodedData, "data estimator encoder num_workers sub_chunks max_retries worker_timeout_s"),
        (
            AuditedMPEncodedData,
            (
                "data estimator encoder num_workers sub_chunks max_retries audit_rate audit_rtol audit_atol rng "
                "worker_timeout_s"
            ),
        ),
    ],
    ids=["mp", "mpi", "resilient", "audited"],
)
def test_positional_arguments_of_handles_have_the_published_order(handle, names):
    parameters = inspect.signature(handle).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == names.split()


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("BernoulliSetFitError", RuntimeError), ("EnumerationError", NotImplementedError),
        ("IntegerBernoulliSetFitError", RuntimeError), ("KeyValidationError", ValueError),
        ("NeutralFactorError", TypeError), ("NonGenerativeConditionalError", TypeError),
        ("NonGenerativeIntegerMarkovChainError", TypeError), ("NonGenerativeMarkovChainError", TypeError),
        ("NonGenerativeSelectError", TypeError), ("NonGenerativeSequenceError", TypeError),
        ("TransformCompatibilityError", TypeError), ("TransformDomainError", ValueError),
        ("VonMisesFisherFitError", RuntimeError), ("VonMisesFitError", RuntimeError),
    ],
)  # fmt: skip
def test_errors_are_the_builtins_that_user_code_catches(name, builtin):
    assert issubclass(getattr(mixle.stats, name), builtin)
