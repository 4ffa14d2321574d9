"""One BLAS thread: held while anybody needs it, restored by the last one to leave."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mixle import _limits as limits
from mixle._limits import one_blas_thread


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS runs on one thread only")
        yield


@pytest.mark.usefixtures("two_threads")
def test_nested_holders_are_counted():
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_the_limit_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_the_last_of_several_threads_restores():
    inside, leave = threading.Barrier(2), threading.Event()

    def hold():
        with one_blas_thread():
            inside.wait(30)
            leave.wait(30)

    other = threading.Thread(target=hold, daemon=True)
    other.start()
    try:
        inside.wait(30)
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    finally:
        leave.set()
        other.join(30)
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_decompositions_have_the_bits_of_one_thread():
    matrix = np.random.RandomState(0).normal(size=(600, 600))
    matrix = matrix @ matrix.T
    with threadpool_limits(1, user_api="blas"):
        expected = np.linalg.cholesky(matrix)
    with one_blas_thread():
        assert (np.linalg.cholesky(matrix) == expected).all()


def test_where_one_thread_is_set_nothing_is_done():
    with threadpool_limits(1, user_api="blas"):
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}


@pytest.mark.usefixtures("two_threads")
def test_a_thread_that_did_not_ask_first_is_limited_too():
    """threadpoolctl 3.8 ignores every thread but the first that set a limit; here every thread counts."""
    seen = []

    def hold():
        with one_blas_thread():
            seen.append(threads())
        seen.append(threads())

    other = threading.Thread(target=hold)
    other.start()
    other.join()
    assert seen == [{1}, {2}]


class PerThread:
    """A library that keeps its number for each calling thread, as OpenMP does."""

    user_api = "openmp"

    def __init__(self):
        self.local = threading.local()

    def get_num_threads(self):
        return getattr(self.local, "count", 4)

    def set_num_threads(self, count):
        self.local.count = count


def test_a_library_with_a_number_per_thread_is_limited_and_restored_in_each(monkeypatch):
    library = PerThread()
    monkeypatch.setattr(limits._LIMIT, "libraries", [library])
    monkeypatch.setattr(limits._LIMIT, "_refresh", lambda: None)
    seen = []

    def hold():
        with one_blas_thread():
            seen.append(library.get_num_threads())
        seen.append(library.get_num_threads())

    with one_blas_thread():
        assert library.get_num_threads() == 1
        other = threading.Thread(target=hold)
        other.start()
        other.join()
    assert seen == [1, 4]
    assert library.get_num_threads() == 4
