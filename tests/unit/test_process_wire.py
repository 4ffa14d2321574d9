"""Frames between driver and workers: whole, half, or garbage."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixle.utils.parallel.transports.process import wire


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def joined(parts):
    return b"".join(parts)


def test_frames_arrive_in_order_whatever_the_pieces(pair):
    ours, theirs = pair
    stream = joined(
        wire.frame(wire.TASK, [b"a" * 100, b"", b"bc"], request=7)
        + wire.frame(wire.GO, request=8)
        + wire.frame(wire.REPLY, [b"xyz"], shard=3, incarnation=2, request=9)
    )
    reader, got = wire.FrameReader(ours), []
    for i in range(len(stream)):
        theirs.send(stream[i : i + 1])
        got += reader.frames()
    assert [(head.kind, head.request, bytes(body)) for head, body in got] == [
        (wire.TASK, 7, b"a" * 100 + b"bc"),
        (wire.GO, 8, b""),
        (wire.REPLY, 9, b"xyz"),
    ]
    assert got[2][0].shard == 3
    assert got[2][0].incarnation == 2


def test_the_end_half_a_frame_and_a_reset_are_told_apart(pair):
    ours, theirs = pair
    theirs.send(joined(wire.frame(wire.GO))[:-1])
    reader = wire.FrameReader(ours)
    assert list(reader.frames()) == []
    theirs.close()
    with pytest.raises(wire.Broken, match="half a reply"):
        list(reader.frames())


def test_the_end_of_the_stream(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(wire.Broken, match="the end of its pipe"):
        list(wire.FrameReader(ours).frames())


def test_frames_before_the_end_still_count(pair):
    ours, theirs = pair
    theirs.send(joined(wire.frame(wire.GO, request=1)))
    theirs.close()
    frames = wire.FrameReader(ours).frames()
    assert next(frames)[0].request == 1
    with pytest.raises(wire.Broken):
        next(frames)


@given(st.binary(min_size=wire.HEAD_SIZE, max_size=200))
def test_garbage_is_told_before_memory_is_taken(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(data)
        with pytest.raises(wire.Broken, match="garbage"):
            list(wire.FrameReader(ours).frames())


def test_every_flip_in_a_head_is_told():
    head = joined(wire.frame(wire.REPLY, request=1, shard=2))
    for bit in range(8 * len(head)):
        flipped = bytearray(head)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(wire.Broken, match="garbage"):
            wire.read_head(flipped)


def test_an_oversized_length_is_told():
    raw = struct.pack("<4sBBHiQQ", wire.MAGIC, wire.REPLY, 0, 0, 0, 0, wire.LIMIT + 1)
    import zlib

    with pytest.raises(wire.Broken, match="oversized"):
        wire.read_head(bytearray(raw + struct.pack("<I", zlib.crc32(raw))))


def test_a_writer_keeps_what_does_not_fit(pair):
    ours, theirs = pair
    body = bytes(range(256)) * 8192
    writer = wire.FrameWriter(ours)
    writer.put(wire.frame(wire.TASK, [body[:100], body[100:]], request=5))
    writer.flush()
    assert writer.queue  # more than a socket holds
    theirs.setblocking(False)
    reader, got = wire.FrameReader(theirs), []
    while not got:
        got += reader.frames()
        writer.flush()
    assert got[0][0].request == 5
    assert got[0][1] == body
    assert not writer.queue


def test_a_writer_tells_a_gone_reader(pair):
    ours, theirs = pair
    theirs.close()
    writer = wire.FrameWriter(ours)
    writer.put(wire.frame(wire.GO))
    with pytest.raises(wire.Broken, match="its pipe broke"):
        writer.flush()


def test_one_reader_does_not_starve_the_others(pair):
    ours, theirs = pair
    theirs.setblocking(False)
    writer, reader = wire.FrameWriter(theirs), wire.FrameReader(ours)
    for number in range(8):
        writer.put(wire.frame(wire.REPLY, [bytes(1000)], request=number))
    writer.flush()
    assert len(list(reader.frames(budget=2500))) < 8
    assert len(list(reader.frames())) > 0
