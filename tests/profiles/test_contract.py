"""Documents on disk: every fault is one line that names the file and the key."""

import json

import pytest
from pydantic import ValidationError

from gnnplan.profiles.contract import Contract, Document, read_mapping, replacing
from gnnplan.profiles.errors import UserError


class Part(Contract):
    size: float


class Sample(Document):
    KIND = "sample"

    name: str = "x"
    parts: tuple[Part, ...] = ()


GOOD = {"kind": "sample", "schema_version": 1, "name": "y", "parts": [{"size": 2.5}]}


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_round_trip(tmp_path):
    sample = Sample(name="é\n", parts=(Part(size=0.1),))
    assert Sample.load(sample.save(tmp_path / "sample.json")) == sample


def test_toml_is_read_too(tmp_path):
    path = write(tmp_path / "s.toml", 'schema_version = 1\nname = "y"\nparts = [{ size = 2.5 }]\n')
    assert Sample.load(path) == Sample.parse(GOOD, where="here")


def test_kind_is_written_whatever_was_given():
    assert Sample(kind="other").kind == "sample"


def test_documents_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Sample().name = "z"


def test_fingerprint_depends_on_content_alone():
    assert Sample(name="a").fingerprint() == Sample(name="a").fingerprint()
    assert Sample(name="a").fingerprint() != Sample(name="b").fingerprint()
    assert len(Sample().fingerprint()) == 16


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"kind": "plan"}, "this is a 'plan' file, a 'sample' file is needed"),
        ({"schema_version": None}, "schema_version is missing"),
        ({"schema_version": 2}, "schema_version is 2, this gnnplan reads 1"),
        ({"nmae": "y"}, "nmae: unknown key"),
        ({"name": 3}, r"name: .*string.*\(got 3\)"),
        ({"parts": [{}]}, r"parts\.0\.size: this key is missing"),
        ({"parts": [{"size": "wide"}, {}]}, r"parts\.0\.size: .*number.*; and 1 more"),
    ],
)
def test_faults_are_named(tmp_path, change, fault):
    path = write(tmp_path / "s.json", {**GOOD, **change})
    with pytest.raises(UserError, match=rf"s\.json: {fault}") as caught:
        Sample.load(path)
    assert "\n" not in str(caught.value)


def test_missing_schema_version_key(tmp_path):
    with pytest.raises(UserError, match="add schema_version = 1"):
        Sample.load(write(tmp_path / "s.json", {"name": "y"}))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_not_a_number_is_refused(tmp_path, number):
    path = write(tmp_path / "s.json", '{"schema_version": 1, "parts": [{"size": NUMBER}]}'.replace("NUMBER", number))
    with pytest.raises(UserError, match=r"parts\.0\.size: .*finite"):
        Sample.load(path)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("s.json", "{not json", "not valid JSON"),
        ("s.json", "", "not valid JSON"),
        ("s.json", "[" * 100_000, "not valid JSON"),
        ("s.toml", "a = = 1", "not valid TOML"),
        ("s.json", "[1, 2]", "a table of keys is needed, found list"),
    ],
)
def test_text_that_does_not_decode(tmp_path, name, text, fault):
    with pytest.raises(UserError, match=fault):
        read_mapping(write(tmp_path / name, text))


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"gone\.json: no such file"):
        Sample.load(tmp_path / "gone.json")


def test_directory_given(tmp_path):
    with pytest.raises(UserError, match="cannot be read as text"):
        Sample.load(tmp_path)


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "s.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read as text"):
        Sample.load(path)


def test_replacing_renames_on_success(tmp_path):
    path = write(tmp_path / "s.json", "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_replacing_leaves_nothing_behind_on_failure(tmp_path):
    path = write(tmp_path / "s.json", "old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_saving_where_a_file_stands_for_a_folder(tmp_path):
    write(tmp_path / "taken", "x")
    with pytest.raises(UserError, match="cannot be written"):
        Sample().save(tmp_path / "taken" / "s.json")
