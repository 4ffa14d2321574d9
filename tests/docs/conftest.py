"""Temporary files of what the pages and the demo do end with the test."""

import tempfile

import pytest


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path_factory, monkeypatch):
    """Return the folder that this process and its children take for temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder
