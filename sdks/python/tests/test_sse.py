"""The stream of events, however its bytes are cut."""

from skillbox._sse import EventReader

TEXT = (
    b'retry: 20\n\n: still here\n\nevent: state\nid: 1\ndata: {"status":"running"}\n\n'
    b'event: log\nid: 2\ndata: {"text":\ndata: "\xc3\xa4"}\n\nevent: weather\nid: 3\ndata: sunny\n\nevent: lo'
)


def read(pieces):
    reader = EventReader()
    return reader, [event for piece in pieces for event in reader.feed(piece)]


def test_events_are_found_however_the_bytes_are_cut():
    whole, events = read([TEXT])
    letters, same = read([bytes([byte]) for byte in TEXT])
    assert events == same
    assert [event.id for event in events] == ["1", "2"]
    assert events[1].text == "ä"
    assert whole.last_id == letters.last_id == "3"
    assert whole.pause_s == 0.02


def test_half_an_event_is_forgotten_on_a_new_connection():
    reader, _ = read([TEXT])
    reader.reconnect()
    assert [event.id for event in reader.feed(b'event: log\nid: 4\ndata: {"text":"x"}\n\n')] == ["4"]
