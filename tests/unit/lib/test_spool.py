"""Records in a spool are read back unchanged from memory and from the file, also on a full disk."""

import copy
import gc
import json
import operator
import pickle
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.lib import spool as spool_module
from pytest_rageval.lib.spool import Spool, SpooledList, rare_collection, spooled_list, spooled_map

SINGLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
RECORDS = st.recursive(
    SINGLE, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
)


@pytest.mark.slow
@given(st.lists(RECORDS, max_size=20), st.integers(0, 200))
def test_records_come_back_as_they_were(records: list[Any], at_once: int) -> None:
    spool = Spool()
    spool._buffer_bytes = at_once
    places = [spool.put(record) for record in records]
    for record, place in reversed(list(zip(records, places, strict=True))):
        assert repr(spool.get(place)) == repr(record)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [object(), Text("a"), {"a": array("d", [1.0])}, [{1, 2}], b"bytes"])
def test_anything_but_plain_data_stays_the_same_object(value: object) -> None:
    spool = Spool()
    places = [spool.put(record) for record in (1, value, 2)]
    assert spool.get(places[1]) is value
    assert [spool.get(places[0]), spool.get(places[2])] == [1, 2]


def test_a_record_that_nests_too_deeply_stays_in_memory() -> None:
    itself: list[Any] = []
    itself.append(itself)
    spool = Spool()
    assert spool.get(spool.put(itself)) is itself


def test_most_of_a_large_spool_is_in_a_file_without_a_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    spool = Spool()
    texts = [f"{n} " * 1000 for n in range(1000)]
    places = [spool.put(text) for text in texts]
    assert len(spool._buffer) <= spool_module.WRITE_BUFFER_BYTES
    assert [spool.get(place) for place in places] == texts
    del spool
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [0, 1, 17, 1000, 5000])
def test_on_a_full_disk_further_replies_stay_in_memory(monkeypatch, room: int) -> None:
    class Disk:
        def __init__(self) -> None:
            self.content = bytearray()
            self.at = 0

        def seek(self, place: int) -> None:
            self.at = place

        def write(self, data: bytes) -> int:
            taken = bytes(data[: room - self.at])
            if not taken:
                raise OSError(28, "No space left on device")
            self.content[self.at :] = taken
            return len(taken)

        def read(self, length: int) -> bytes:
            found = bytes(self.content[self.at : self.at + length])
            self.at += len(found)
            return found

        def close(self) -> None:
            pass

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Disk())
    spool = Spool()
    spool._buffer_bytes = 100
    records = [["a" * n, n] for n in range(0, 300, 7)]
    places = [spool.put(record) for record in records]
    assert [spool.get(place) for place in places] == records


def test_no_temporary_folder_keeps_all_in_memory(monkeypatch) -> None:
    def none(**_: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", none)
    spool = Spool()
    texts = ["a" * 400_000 + str(n) for n in range(5)]
    assert [*spooled_list(texts, spool)] == texts


def test_a_cached_list_is_read_as_a_list() -> None:
    plain = [{"id": f"q{n}", "score": n / 3} for n in range(5)]
    kept = spooled_list(plain, Spool())
    assert isinstance(kept, list)
    assert (len(kept), bool(kept), bool(spooled_list([], Spool()))) == (5, True, False)
    assert kept == plain
    assert plain == kept
    assert (kept == plain[1:], kept != plain) == (False, False)
    assert (kept[0], kept[-1], kept[1:3], list(reversed(kept))) == (
        plain[0],
        plain[4],
        plain[1:3],
        plain[::-1],
    )
    assert plain[2] in kept
    assert (kept + [1], [1] + kept, [*kept, 1]) == ([*plain, 1], [1, *plain], [*plain, 1])  # noqa: RUF005
    assert repr(kept) == repr(plain)
    for indent in (None, 1):
        assert json.dumps({"examples": kept}, indent=indent) == json.dumps({"examples": plain}, indent=indent)
        assert json.dumps(spooled_list([], Spool()), indent=indent) == "[]"
    for copied in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):  # noqa: S301 - of this test
        assert type(copied) is list
        assert copied == plain
    copied = kept.copy()
    copied.append(plain[0])
    assert (copied, len(kept)) == ([*plain, plain[0]], 5)
    with pytest.raises(TypeError, match="cannot be changed"):
        kept.append(plain[0])
    with pytest.raises(TypeError, match="cannot be changed"):
        kept.sort(key=str)


@pytest.mark.parametrize("other", [[], [3], [1, 2], [1, 2, 2], [1, 2, 2, 4], [0, 9]])
def test_every_operation_of_a_list_gives_what_it_gives_for_a_list(other: list[int]) -> None:
    """Every list operation is overridden, because the underlying `list` has no items."""
    plain = [1, 2, 2]
    kept, kept_other = spooled_list(plain, Spool()), spooled_list(other, Spool())
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        expected = compare(plain, other)
        assert [compare(kept, other), compare(plain, kept_other), compare(kept, kept_other)] == [expected] * 3
    with pytest.raises(TypeError):
        assert kept < (1,)
    assert (kept * 2, 2 * kept, kept * 0) == (plain * 2, plain * 2, [])
    assert (kept.index(2), kept.index(2, 2), kept.count(2), kept.count(3)) == (1, 2, 2, 0)
    with pytest.raises(ValueError, match="3 is not in list"):
        kept.index(3)
    changed = [0, *plain]
    changed += kept
    changed[:1] = kept
    assert changed == plain * 3
    own = {name for name in dir(list) if getattr(SpooledList, name) is not getattr(list, name)}
    inherited = set(dir(list)) - own - set(dir(object))
    assert inherited <= {"__class_getitem__", "__getattribute__", "__new__"}


def test_an_item_is_made_when_it_is_first_asked_for() -> None:
    computed: list[int] = []

    def double(number: int) -> dict[str, int]:
        computed.append(number)
        return {"twice": 2 * number}

    items = spooled_map(double, [3, 4, 5, 6], Spool())
    assert (len(items), bool(items), computed) == (4, True, [])
    assert (items[-1], items[1:3], computed) == ({"twice": 12}, [{"twice": 8}, {"twice": 10}], [6, 4, 5])
    assert json.loads(json.dumps(items)) == [*items] == [{"twice": 2 * number} for number in (3, 4, 5, 6)]
    assert next(reversed(items)) == {"twice": 12}
    assert sorted(computed) == [3, 4, 5, 6]
    with pytest.raises(IndexError):
        items[4]


@pytest.mark.parametrize(
    ("before", "within"),
    [((700, 10, 10), (10_000, 20, 20)), ((0, 10, 10), (0, 10, 10)), ((50_000, 5, 5), (50_000, 5, 5))],
)
def test_collection_is_rarer_until_the_end_of_the_block(before, within):
    """A collector that is off, or rarer still, stays so; the thresholds come back, also after an error."""
    own = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with suppress(ZeroDivisionError), rare_collection():
            assert gc.get_threshold() == within
            raise ZeroDivisionError
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*own)
