"""The `MachineProfile` contract: what goes out comes back, what is not a full grid is refused."""

import json

import pytest
from pydantic import ValidationError

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import CollectiveTable, Link, MachineProfile, MeasuredHost, OperatorTable, Point


def table(*shapes, axes=("num_rows", "width")):
    return OperatorTable(axes=axes, points=tuple(Point(shape=shape, median_s=1.0) for shape in shapes))


@pytest.fixture
def profile():
    return MachineProfile(
        schema_version=1,
        name="box",
        device_kind="cpu",
        device_name="a processor",
        num_threads=2,
        memory_bytes=2**33,
        process_base_bytes=2**28,
        host_overhead_s=1.25e-5,
        operators={"add": table((1.0,), (2.5,), axes=("num_elements",))},
        collectives=(
            CollectiveTable(
                collective="all_reduce", backend="gloo", num_workers=2, table=table((4.0,), axes=("num_bytes",))
            ),
        ),
        software={"torch": "2.8"},
        created="2026-01-01",
    )


def test_round_trip_through_a_file(profile, tmp_path):
    path = profile.save(tmp_path / "deep" / "box.json")
    loaded = MachineProfile.load(path)
    assert loaded == profile
    assert loaded.fingerprint() == profile.fingerprint()


def test_fingerprint_changes_with_any_figure(profile):
    other = profile.model_copy(update={"host_overhead_s": 1.3e-5})
    assert other.fingerprint() != profile.fingerprint()


def test_a_full_grid_in_any_order_is_accepted():
    assert len(table((2.0, 8.0), (1.0, 4.0), (1.0, 8.0), (2.0, 4.0)).points) == 4


@pytest.mark.parametrize(
    ("shapes", "fault"),
    [
        (((1.0, 4.0), (2.0, 8.0)), "not a full grid"),
        (((1.0, 4.0), (1.0, 4.0)), "listed twice"),
        (((1.0,),), "needs 2 coordinates"),
        (((0.0, 4.0),), "must be above 0"),
        ((), "at least 1 item"),
    ],
)
def test_broken_grids_are_refused(shapes, fault):
    with pytest.raises(ValidationError, match=fault):
        table(*shapes)


@pytest.mark.parametrize("median_s", [-1e-9, float("nan"), float("inf")])
def test_seconds_are_finite_and_not_negative(median_s):
    with pytest.raises(ValidationError):
        Point(shape=(1.0,), median_s=median_s)


def test_a_collective_needs_two_workers():
    with pytest.raises(ValidationError, match="num_workers"):
        CollectiveTable(collective="all_reduce", backend="gloo", num_workers=1, table=table((1.0, 1.0)))


@pytest.mark.parametrize(("collective", "peer"), [("all_to_all_pair", None), ("all_to_all", 0)])
def test_pairs_and_only_they_have_a_peer(collective, peer):
    with pytest.raises(ValidationError, match="peer: an all_to_all_pair needs one"):
        CollectiveTable(
            collective=collective, backend="gloo", num_workers=3, table=table((4.0,), axes=("num_bytes",)), peer=peer
        )


def test_a_profile_knows_its_own_host_among_those_measured(profile, tmp_path):
    members = tuple(MeasuredHost(name=name, num_workers=1, link=Link(bytes_per_s=1e8)) for name in ("a", "b"))
    placed = profile.model_copy(update={"members": members, "host": "b"})
    assert MachineProfile.load(placed.save(tmp_path / "b.json")).own_host == members[1]
    assert profile.own_host is None
    for changes in ({"host": "c"}, {"host": ""}, {"members": ()}):
        path = placed.model_copy(update=changes).save(tmp_path / "wrong.json")
        with pytest.raises(UserError, match="host: must be one of members"):
            MachineProfile.load(path)


def test_a_profile_of_an_older_version_has_no_members(profile, tmp_path):
    raw = json.loads(profile.model_dump_json())
    del raw["members"], raw["host"], raw["collectives"][0]["peer"]
    (tmp_path / "old.json").write_text(json.dumps(raw))
    assert MachineProfile.load(tmp_path / "old.json") == profile


def test_a_link_needs_a_rate():
    with pytest.raises(ValidationError, match="bytes_per_s"):
        Link(bytes_per_s=0.0)


def test_a_broken_table_in_a_file_is_one_line_with_the_key(profile, tmp_path):
    path = tmp_path / "box.json"
    path.write_text(profile.model_dump_json().replace('"shape":[2.5]', '"shape":[1.0]'))
    with pytest.raises(UserError, match=r"box\.json: operators\.add: .*listed twice") as caught:
        MachineProfile.load(path)
    assert "\n" not in str(caught.value)
