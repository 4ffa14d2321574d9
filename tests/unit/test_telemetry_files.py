"""The append-only file: speed, several writers, torn and foreign lines, amendments, a full disk."""

import json
import os
import subprocess
import sys
import threading

import pytest

from mixle.telemetry import Event, Telemetry

resource = pytest.importorskip("resource")

FEATURES = {
    "rank": 1, "round": 2, "e_step_seconds": 0.125, "m_step_seconds": 0.0, "bytes_processed": 8000,
    "accumulator_bytes": 100, "n_obs": 1000, "total_seconds": 0.125,
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "events.jsonl"


def rows(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_is_the_json_of_the_row(path):
    with Telemetry(path) as t:
        event = t.record("fit", features={"b": 1, "a": 2}, choice="c", tags={"run_id": "r"})
        assert path.read_text() == json.dumps(event.as_row()) + "\n"
    assert list(Telemetry(path).events()) == [event]


def test_clock_goes_on_after_reload(path):
    with Telemetry(path) as t:
        t.record("fit", when=41.0)
    with Telemetry(path) as t:
        assert t.record("fit").ts == 42.0


def test_flush_every_batches_and_close_writes_the_rest(path):
    with Telemetry(path, flush_every=3) as t:
        t.record("fit")
        t.record("fit")
        assert not path.exists()
        t.record("fit")
        assert len(rows(path)) == 3
        t.record("fit")
    assert len(rows(path)) == 4


def test_rest_is_written_when_the_interpreter_ends(path):
    code = f"from mixle.telemetry import Telemetry; t = Telemetry({str(path)!r}, flush_every=10); t.record('fit')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(Telemetry(path)) == 1


def test_edits_are_amendments_and_are_there_after_reload(path):
    with Telemetry(path) as t:
        events = [t.record("fit", outcome={"parts": [1]}) for _ in range(3)]
        size = path.stat().st_size
        events[1].outcome["seconds"] = 2.5
        events[2].outcome = {"new": True}
        events[2].choice = "late"
        events[0].outcome.update(a=1)
        events[0].outcome |= {"b": 2}
        del events[0].outcome["a"]
        assert events[0].outcome.setdefault("b", 9) == 2
        events[0].outcome.setdefault("c", 3)
        assert events[0].outcome.pop("c") == 3
        assert events[0].outcome.popitem() == ("b", 2)
        events[0].outcome["parts"].append(2)
        t.flush()
        assert path.stat().st_size > size
        assert rows(path)[0] == {**Event("fit", outcome={"parts": [1]}).as_row(), "ts": 1.0}
    again = Telemetry(path)
    assert list(again.events()) == events
    assert [event.outcome for event in again.events()] == [
        {"parts": [1, 2]},
        {"parts": [1], "seconds": 2.5},
        {"new": True},
    ]
    assert again.foreign == 0
    next(again.events()).outcome.clear()
    again.close()
    assert next(Telemetry(path).events()).outcome == {}


def test_edit_before_the_row_is_written_needs_no_amendment(path):
    with Telemetry(path, flush_every=100) as t:
        t.record("fit").outcome["x"] = 1
    assert [row["outcome"] for row in rows(path)] == [{"x": 1}]


def test_replaced_outcome_no_longer_speaks_for_its_event(path):
    with Telemetry(path) as t:
        event = t.record("fit", outcome={"x": 1})
        old = event.outcome
        event.outcome = {"y": 2}
        size = path.stat().st_size
        old["x"] = 3
        assert path.stat().st_size == size
        assert event.outcome == {"y": 2}


@pytest.mark.parametrize(
    "bad",
    [b"{not json", b"[1, 2]", b"\xff\xfe", b'{"kind": "unheard", "features": {}}', b"[" * 100_000,
     b'{"amends": 0, "crc": 1, "set": {"outcome": {}}}', b'{"amends": [], "crc": 1, "set": {}}',
     b'{"kind": "fit", "features": {}, "choice": null, "outcome": {}, "tags": {}, "ts": NaN}',
     b'{"kind": "fit", "features": 3, "choice": null, "outcome": {}, "tags": {}, "ts": 1}'],
)  # fmt: skip
def test_foreign_and_torn_lines_stay_and_cost_nothing_else(path, bad):
    with Telemetry(path) as t:
        t.record("fit", choice="before")
    with path.open("ab") as file:
        file.write(bad)  # no line feed: torn
    before = path.read_bytes()
    with Telemetry(path) as t:
        assert t.foreign == 1
        t.record("fit", choice="after")
    assert path.read_bytes().startswith(before + b"\n")
    assert [event.choice for event in Telemetry(path).events()] == ["before", "after"]


def test_last_line_without_its_feed_is_read_if_it_is_whole(path):
    with Telemetry(path) as t:
        t.record("fit")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(Telemetry(path)) == 1


def test_value_that_is_no_json_loses_nothing(path):
    with Telemetry(path) as t:
        t.record("fit", features={"bad": object(), "nan": float("nan")})
        t.record("fit", choice="fine")
    read = list(Telemetry(path).events())
    assert [event.choice for event in read] == [None, "fine"]
    assert read[0].features["nan"] is None
    assert read[0].features["bad"].startswith("<object object")


WRITE = """
from mixle.telemetry import Telemetry
with Telemetry({path!r}) as t:
    for number in range(200):
        event = t.record("fit", features={{"writer": {name}, "number": number, "pad": "x" * (number * 7 % 300)}})
        if number % 20 == 0:
            event.outcome["done"] = {name}
"""


def test_processes_and_threads_write_one_file(path):
    codes = [WRITE.format(path=str(path), name=name) for name in range(4)]
    processes = [subprocess.Popen([sys.executable, "-c", code]) for code in codes[:2]]
    threads = [threading.Thread(target=exec, args=(code, {})) for code in codes[2:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    t = Telemetry(path)
    assert t.foreign == 0
    for name in range(4):
        mine = [event for event in t.events() if event.features["writer"] == name]
        assert [event.features["number"] for event in mine] == list(range(200))
        assert [event.outcome for event in mine[::20]] == [{"done": name}] * 10


def test_another_writers_torn_line_does_not_swallow_ours(path):
    with Telemetry(path) as t:
        t.record("fit", choice=1)
        with path.open("ab") as file:
            file.write(b'{"kind": "fit", "feat')
        event = t.record("fit", choice=2)
        event.outcome["x"] = 1
    again = Telemetry(path)
    assert [event.choice for event in again.events()] == [1, 2]
    assert list(again.events())[1].outcome == {"x": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_its_own_rows_only(path):
    with Telemetry(path, flush_every=10) as t:
        t.record("fit", choice="parent")
        child = os.fork()
        if child == 0:
            t.record("fit", choice="child")
            t.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert sorted(event.choice for event in Telemetry(path).events()) == ["child", "parent"]


FULL = """
import resource, warnings
from mixle.telemetry import Telemetry
t = Telemetry({path!r})
t.record("fit", features={{"pad": "x" * 100}})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in range(20):
        t.record("fit", choice=number, features={{"pad": "x" * 100}})
assert len(caught) == 1 and "cannot be written" in str(caught[0].message), caught
assert len(t) == 21 and t.write_error is not None
with warnings.catch_warnings():
    warnings.simplefilter("error")
    t.record("fit", choice=20)
try:
    t.flush()
except OSError as error:
    assert error is t.write_error
else:
    raise AssertionError("flush must say that the disk is full")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
t.flush()
assert t.write_error is None
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_full_disk_is_reported_and_loses_nothing(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(path=str(path))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    again = Telemetry(path)
    assert [event.choice for event in again.events()] == [None, *range(21)]
    assert again.foreign == 1  # the line that was torn when the space ran out


def test_folder_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Telemetry(tmp_path / "file" / "events.jsonl")


def test_cost_is_linear_and_memory_per_record_constant(path):
    """The n-th record costs what the first did: no rewriting, no scanning."""

    def write(count):
        for _ in range(count):
            t.record("em_round", features=FEATURES, choice="rank=1", tags={"run_id": "a"})

    with Telemetry(path) as t:
        write(2000)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write(8000)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 8000 * 4  # kilobytes: 4 each


def test_a_file_that_was_only_read_may_go(path):
    with Telemetry(path) as t:
        t.record("em_round")
    reader = Telemetry(path)
    path.unlink()
    reader.close()  # warnings are errors here
    assert not path.exists()
