"""The pytest plugin: the fixtures `chaos_plan`, `no_leaks`, `mixle_backend`, and the option ``--mixle-backends``.

It is loaded by every run of pytest where this package is installed, so it imports nothing that a test does not ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixle.testing.backends import BackendFactory
    from mixle.testing.chaos import ChaosPlan
    from mixle.testing.leaks import Census

OPTION = "--mixle-backends"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("mixle").addoption(
        OPTION,
        default=None,
        metavar="NAMES",
        help="backends that the fixture mixle_backend runs on: names such as local,threads,mp (the default), or all",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for `mixle_backend` on each backend."""
    if "mixle_backend" not in metafunc.fixturenames:
        return
    if any("mixle_backend" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")):
        return  # the test names its backends itself
    from mixle.testing.backends import backends_of

    try:
        names = backends_of(metafunc.config.getoption(OPTION))
    except ValueError as error:
        raise pytest.UsageError(f"{OPTION}: {error}") from None
    metafunc.parametrize("mixle_backend", names, indirect=True)


@pytest.fixture
def mixle_backend(request: pytest.FixtureRequest) -> Iterator[BackendFactory]:
    """Encode rows on the backend of this run: ``mixle_backend(rows, estimator, **options)``; closed at the end.

    ``mixle_backend.name`` is the backend's name. Four shards unless the options say otherwise, so that all backends
    give the same bits.
    """
    from mixle.testing.backends import BackendFactory

    factory = BackendFactory(request.param)
    yield factory
    factory.close()


@pytest.fixture
def chaos_plan(request: pytest.FixtureRequest) -> Iterator[ChaosPlan]:
    """Return an empty plan; whatever is made of it and given to a handle must have happened by the end of the test."""
    from mixle.testing.chaos import ChaosPlan

    plan, failed = ChaosPlan(), request.session.testsfailed
    yield plan
    if request.session.testsfailed == failed:
        plan.check_family()


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[Census]:
    """Fail a test that leaves processes, threads, descriptors, shared memory or temporary files behind.

    ``no_leaks.check()`` asks in the middle of a test.
    """
    from mixle.testing.backends import BackendFactory
    from mixle.testing.leaks import Census, private_temporary_folder

    backend = getattr(request.node, "callspec", None)
    if backend is not None and isinstance(name := backend.params.get("mixle_backend"), str):
        BackendFactory(name).warm()
    if request.config.pluginmanager.has_plugin("tmpdir"):  # its own folder is not a leak
        request.getfixturevalue("tmp_path_factory").getbasetemp()
    with private_temporary_folder() as folder:
        census = Census(folder)
        yield census
        census.check()
