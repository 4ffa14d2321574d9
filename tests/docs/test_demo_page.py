"""The page at the end of the demo: where it is, who may read it, and what it never does."""

import re
import stat
import sys
from pathlib import Path

import pytest

from mixle.cli.main import main
from mixle.cli.page_file import write_page
from mixle.cli.screen import Screen

QUICK = ("demo", "--data", "penguins", "--workers", "2", "--iterations", "3")


def test_the_demo_ends_by_naming_a_page_of_its_pool(temporary_folder, capsys):
    assert main(QUICK) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    (path,) = re.findall(r"as a page: (.*\.html)$", last)
    assert Path(path).parent == temporary_folder
    if sys.platform != "win32":
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    text = Path(path).read_text("utf-8")
    assert "344 penguins, 2 workers (mp)" in text
    assert "Where the time went" in text
    assert "<tr><td>1</td>" in text


def test_a_page_where_it_is_asked_for(tmp_path, capsys):
    path = tmp_path / "page.html"
    assert main([*QUICK, "--report", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    assert "</html>" in path.read_text("utf-8")


@pytest.mark.parametrize("name", ["page.html", "none/page.html"])
def test_a_page_that_stands_or_has_no_folder_is_refused_before_the_fit(tmp_path, capsys, name):
    (tmp_path / "page.html").write_text("mine")
    assert main([*QUICK, "--report", str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert "--report" in said.err or "no folder" in said.err
    assert said.out == ""
    assert (tmp_path / "page.html").read_text() == "mine"


def test_no_room_for_temporary_files_is_no_failure(monkeypatch, capsys):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    write_page([], "a fit", None, Screen(sys.stdout))
    assert capsys.readouterr().out == "No page was written: No space left on device.\n"
