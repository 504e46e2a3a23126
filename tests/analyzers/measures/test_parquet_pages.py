"""Headers of Parquet pages, compared with files of pyarrow and with crafted files."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows, packed, unpacked
from tidegauge.analyzers.measures.serialized_layouts import column_pages


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def varint(number):
    actual = bytearray()
    while number > 0x7F:
        actual.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*actual, number])


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_page_sizes_equal_those_of_the_footer(compression, version, dictionary):
    """The pages of a column have the sizes in the footer, which also counts their headers."""
    table = pa.table(
        {
            "t": [f"value {i % 7}" for i in range(5000)],
            "n": range(5000),
            "f": [i / 3 for i in range(5000)],
        }
    )
    file = written(
        table,
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=2000,
        data_page_size=1000,
        write_page_index=True,
        write_page_checksum=True,
    )
    actual = column_pages(file)
    assert len(actual) == 9
    footer = pq.ParquetFile(io.BytesIO(file)).metadata
    for group in range(3):
        for column in range(3):
            own = footer.row_group(group).column(column)
            pages = actual[3 * group + column]
            assert pages.values == own.num_values == (2000, 2000, 1000)[group]
            headers = own.total_uncompressed_size - max(pages.min_bytes, 8 * own.num_values)
            assert headers < 100 * (2 + own.num_values / 100)
            assert pages.min_bytes >= 8 * own.num_values
            # Seven strings of seven letters, each after its length in four bytes
            assert pages.dictionary == (7 * 11 if dictionary and column == 0 else 0)


ROWS = 20_000
PLAIN = 8 * ROWS + 8
"""Size of the only page of `state` in bytes: its strings, and the levels of a column without nulls."""


HEADER = 25
"""Size of its header in bytes."""


def state():
    """Return a file with one page, and the bytes of its column."""
    file = written(
        pa.table({"count": pa.array(range(ROWS))}),
        use_dictionary=False,
        compression="zstd",
        write_statistics=False,
    )
    column = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0)
    return file, slice(
        column.data_page_offset, column.data_page_offset + column.total_compressed_size
    )


def claiming(size=PLAIN, values=ROWS, packed_size=None):
    """Return the same file with other sizes in the header of its page, which is shortened accordingly."""
    file, place = state()
    page = file[place]
    was = [varint(2 * number) for number in (PLAIN, len(page) - HEADER, ROWS)]
    start = b"\x15\x00\x15" + was[0] + b"\x15" + was[1] + b"\x2c\x15" + was[2]
    assert page.startswith(start)
    rest = page[len(start) :]
    for shorter in range(20):
        packed_size_now = len(page) - HEADER - shorter if packed_size is None else packed_size
        numbers = [varint(2 * number) for number in (size, packed_size_now, values)]
        head = b"\x15\x00\x15" + numbers[0] + b"\x15" + numbers[1] + b"\x2c\x15" + numbers[2]
        changed = head + rest[: len(rest) - shorter]
        if len(changed) == len(page):
            return file[: place.start] + changed + file[place.stop :]
    raise AssertionError


def test_a_valid_file_is_read():
    file = claiming()
    assert file == state()[0]
    assert unpacked(file)["count"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize(
    ("claim", "message"),
    [({"size": 2**31 - 1}, "bytes that would take"), ({"values": 2**31 - 1}, "a column of 20000")],
)
def test_a_page_that_claims_gigabytes_is_refused(claim, message):
    """Its footer is valid: only the header of the page contains that size."""
    with pytest.raises(ValueError, match=message):
        unpacked(claiming(**claim))


def test_rows_without_pages_are_refused():
    """A reader allocates memory for the rows that the footer counts."""
    file, _ = state()
    reported = b"\x16" + varint(2 * ROWS)
    refused = []
    at = file.find(reported)
    while at >= 0:  # some versions of pyarrow also write the number elsewhere
        changed = file[:at] + b"\x16" + varint(2 * (ROWS + 1)) + file[at + len(reported) :]
        try:
            unpacked(changed)
        except ValueError as error:
            refused.append(str(error))
        at = file.find(reported, at + 1)
    # In the file, the row group and its column.
    assert len([one for one in refused if f"{ROWS + 1}" in one and "rows" in one]) == 3


def test_a_page_beyond_its_column_is_refused():
    with pytest.raises(ValueError, match="a page of 60000 bytes"):
        column_pages(claiming(packed_size=60_000))


@pytest.mark.parametrize("store_schema", [True, False])
def test_long_strings_of_many_rows_are_refused_before_they_are_expanded(store_schema):
    """A string of a megabyte in each of a hundred thousand rows takes a kilobyte as a dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 10**6])
    bomb = written(
        pa.table({"0": texts, "count": [1] * 100_000}),
        compression="zstd",
        store_schema=store_schema,
    )
    assert len(bomb) < 2000
    with pytest.raises(ValueError, match="would take 100000000000 in memory"):
        unpacked(bomb)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_long_strings_of_few_rows_are_read(kind):
    """Rows times the longest string would be too much, but few rows have it."""
    texts = pa.array([b"x" * 500_000, b"", None, *[b"abc", b"defg"] * 50_000], pa.binary()).cast(
        kind
    )
    table = pa.table({"0": texts, "1": texts, "count": [1] * len(texts)})
    table = table.sort_by([("0", "ascending"), ("1", "ascending")])
    for file in (packed(table, 2), written(table, row_group_size=60_000)):
        assert sum(one.max_bytes for one in column_pages(file)) > 2**28
        assert unpacked(file).equals(table)


def test_an_empty_table_has_no_pages():
    table = pa.table({"0": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    assert [one.min_bytes for one in column_pages(packed(table, 1))] == [0, 0]
    assert unpacked(packed(table, 1)).equals(table)


def test_a_single_key_has_no_dictionary():
    one = FrequenciesAndNumRows.from_groups([((f"v{i}",), i % 3 + 1) for i in range(1000)])
    key, count = column_pages(one.pack())
    assert (key.values, key.dictionary) == (1000, 0)
    assert count.values == 1000


def test_delta_encoded_strings_are_refused():
    """With that encoding, a string of a megabyte in each of a thousand rows takes a kilobyte.

    We never write it.
    """
    bomb = written(
        pa.table({"0": ["x" * 10**6] * 1000, "count": [1] * 1000}),
        use_dictionary=False,
        column_encoding={"0": "DELTA_BYTE_ARRAY", "count": "PLAIN"},
        compression="zstd",
        data_page_size=1 << 30,
    )
    assert len(bomb) < 2000
    with pytest.raises(ValueError, match="a page of the encoding 7"):
        unpacked(bomb)


def test_a_column_with_another_type_than_the_schema_is_refused():
    """A reader uses the schema: a dictionary of strings is not a dictionary of numbers."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 10**6])
    file = written(pa.table({"0": texts}), compression="zstd", store_schema=False)
    length = int.from_bytes(file[-8:-4], "little")
    footer = file[-8 - length : -8]
    # The type in the column's metadata is the first field after the start of a structure in a list.
    message = b"\x1c\x15\x0c\x19"
    assert footer.count(message) == 1
    changed = file[: -8 - length] + footer.replace(message, b"\x1c\x15\x04\x19") + file[-8:]
    with pytest.raises(ValueError, match="of another type than its schema's"):
        unpacked(changed)


def test_a_duplicate_field_is_refused():
    """The reader may use the first, while the check reads the second."""
    file, place = state()
    head = file[place.start : place.start + 3]
    assert head == b"\x15\x00\x15"
    twice = file[: place.start + 2] + b"\x05\x02" + file[place.start + 4 :]
    with pytest.raises(ValueError, match="field 1 twice"):
        column_pages(twice)


def test_bytes_between_pages_and_footer_do_not_raise_the_memory_limit():
    sink = io.BytesIO()
    one = pa.table({"count": pa.array([1] * 10**6)})
    with pq.ParquetWriter(sink, one.schema, compression="zstd") as writer:
        for _ in range(50):
            writer.write_table(one)
    file = sink.getvalue()
    end = len(file) - 8 - int.from_bytes(file[-8:-4], "little")
    for filled in (file, file[:end] + bytes(10**6) + file[end:]):
        with pytest.raises(ValueError, match="would take 400000000 in memory"):
            unpacked(filled)


@pytest.mark.parametrize("kind", [1, 6, 7, 8, 12], ids=["bool", "i64", "double", "text", "struct"])
def test_a_list_longer_than_the_file_is_refused(kind):
    """The header claims 2**60 values, but each takes at least one byte."""
    footer = bytes([0x49, 0xF0 | kind]) + varint(2**60) + b"\x00" * 40
    with pytest.raises(ValueError, match="structures that are not|after the file"):
        column_pages(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@given(st.binary(max_size=200), st.data())
def test_other_bytes_raise_our_error(damage, data):
    file, place = state()
    at = data.draw(st.one_of(st.just(place.start), st.integers(0, len(file))))
    for content in (damage, damage + file[-40:], file[:at] + damage + file[at + len(damage) :]):
        try:
            column_pages(content)
        except ValueError:
            continue
