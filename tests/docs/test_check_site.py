"""The check of the built site finds what it says it finds."""

import check_site
import pytest

GOOD = """<html lang="en"><head><title>A page</title></head><body>
<a href="#part">skip</a><article><h1>One</h1><h2 id="part">Two</h2><h3>Three</h3><h2>Two</h2>
<img src="a.svg" alt="a drawing"><a href="other.html#there"><img src="b.svg" alt="other"></a><p id="there">x<br>y</p>
<label for="q">Search</label><input id="q"><input type="hidden"><button aria-label="close"></button>
<a href="https://example.org/nowhere">far</a></article></body></html>"""
FAULTS = {
    "says no language": (' lang="en"', ""),
    "has no title": ("A page", ""),
    "2 main headings": ("<h2>Two</h2>", "<h1>Two</h1>"),
    "0 main headings": ("<h1>One</h1>", ""),
    "of level 3, under one of level 1": ('<h2 id="part">Two</h2>', '<p id="part"></p>'),
    "the picture a.svg has no alt text": (' alt="a drawing"', ""),
    "a <a> has no name": ('<img src="b.svg" alt="other">', '<img src="b.svg" alt="">'),
    "a <input> has no name: q": ('<label for="q">Search</label>', ""),
    "a <button> has no name": (' aria-label="close"', ""),
    "two elements have the id 'there'": ("<p id=", '<p id="there"></p><p id='),
    "the link #part leads to no place": ('id="part"', ""),
    "the link other.html#there leads to no place": ("other.html#there", "other.html#there"),
    "the link gone.html leads to no file": ("<p id", '<a href="gone.html">gone</a><p id'),
}


def site(folder, page, other=GOOD):
    (folder / "index.html").write_text(page)
    (folder / "other.html").write_text(other)
    return check_site.faults(folder)


def test_a_good_site_has_no_fault(tmp_path):
    assert site(tmp_path, GOOD) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_with_its_page(fault, tmp_path):
    before, after = FAULTS[fault]
    assert before in GOOD
    other = GOOD.replace('id="there"', "") if before == after else GOOD
    told = site(tmp_path, GOOD.replace(before, after), other)
    assert [line for line in told if line.startswith("index.html: ") and fault in line], told


def test_an_empty_folder_is_no_site(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["check_site.py", str(tmp_path)])
    assert check_site.main() == 1
    assert "has no pages" in capsys.readouterr().out
