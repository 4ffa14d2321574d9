"""The page: offline, small, escaped, right for any number of ranks and rounds."""

import html.parser
import math
import re
import struct
import zlib
from binascii import a2b_base64

import numpy as np
import pytest

from mixle.utils.parallel.em_observability import RankRecord, fit_report
from mixle.utils.parallel.observing.heat import heat_map


def receipts(ranks, rounds, slow=(), since=0, facts=None):
    rng = np.random.default_rng(1)
    return [
        RankRecord(
            rank, t, (2.0 if rank in slow and t >= since else 1.0) * 0.01 * math.exp(0.05 * rng.standard_normal()),
            0.001, 8000 + rank, 500, 1000 + rank, {"log_density": -1000.0 + t, "host": "h<1>", **(facts or {})},
        )
        for t in range(rounds)
        for rank in range(ranks)
    ]  # fmt: skip


class Checker(html.parser.HTMLParser):
    """Every element is closed, and nothing is loaded from elsewhere."""

    VOID = frozenset({"meta", "img", "path"})

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        for name, value in attrs:
            assert name not in {"onclick", "onload", "href"}
            assert name != "src" or value.startswith("data:")
        if ("role", "img") in attrs:
            assert dict(attrs)["aria-label"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("ranks", "rounds"), [(0, 0), (1, 1), (2, 1), (2, 40), (64, 1), (64, 500), (200, 4)])
def test_page_is_whole_offline_and_small(ranks, rounds):
    report = fit_report(receipts(ranks, rounds, slow=(1,), since=rounds // 2))
    text = report.to_html(title="a < b & c")
    checker = Checker(text)
    assert checker.open == []
    assert "script" not in checker.seen
    assert "link" not in checker.seen
    assert not re.search(r"https?://|url\(|@import", text)
    assert len(text.encode()) <= 200_000
    assert "a &lt; b &amp; c" in text
    assert "h<1>" not in text
    assert "prefers-color-scheme:dark" in text
    assert "width=device-width" in text
    assert report._repr_html_() in report.to_html()


def test_page_says_who_is_slow_and_where_time_went(tmp_path):
    phases = {"queue": 0.001, "E-step": 0.01, "wait": 0.005, "fold": 0.002, "M-step": 0.002}
    report = fit_report(receipts(4, 20, slow=(2,), since=10, facts={"phases": phases, "peak_memory_bytes": 3e8}))
    text = report.to_html(tmp_path / "fit.html")
    assert (tmp_path / "fit.html").read_text(encoding="utf-8") == text
    assert "Rank 2 (2× since round 10): slower than the others at equal work." in text
    assert "wait <b>25.0 %</b>" in text
    assert "300 MB" in text
    assert "Log-density" in text
    assert text.index("<tr class=slow><td>2<") < text.index("<tr><td>0<")


def test_page_of_nothing_says_so():
    assert "There are no records." in fit_report([]).to_html()


def test_page_of_no_time_leaves_out_where_it_went():
    text = fit_report([RankRecord(0, 0, 0.0, 0.0, 8, 5, 1)])._repr_html_()
    assert "Where the time went" not in text
    assert "wall time" in text


def test_notebook_shows_the_report():
    assert fit_report(receipts(2, 3))._repr_html_().startswith('<div class="mixle-report">')


def pixels(uri):
    data = a2b_base64(uri.partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not raw[:, 0].any()
    return raw[:, 1:], np.frombuffer(chunks[b"tRNS"], np.uint8)


def test_heat_map_is_a_png_of_the_table():
    codes, alphas = pixels(heat_map(np.array([[0.0, np.log(2.0), np.nan], [-np.log(2.0), 9.0, -np.inf]])))
    assert codes.tolist() == [[24, 48, 49], [0, 48, 49]]
    assert alphas[24] == 0
    assert alphas[48] == alphas[0] == 255


def test_heat_map_keeps_the_slowest_when_it_thins():
    table = np.zeros((2, 5000))
    table[1, 3333] = 1.0
    codes, _ = pixels(heat_map(table, most=100))
    assert codes.shape == (2, 100)
    assert codes[1].max() == 48
    assert codes[0].max() == 24
