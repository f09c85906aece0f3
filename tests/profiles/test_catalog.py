"""The catalog: every device loads, tables 1 and 3 come back, and more work never takes less time."""

import csv
from pathlib import Path
from statistics import median

import pytest

import gnnplan.profiles.catalog as catalog
from gnnplan.profiles.catalog import catalog_names, catalog_profile
from gnnplan.profiles.catalog.devices import device_file, rates
from gnnplan.profiles.catalog.roofline import AXES, PUBLISHED, roofline_seconds
from gnnplan.profiles.curves import Curve
from gnnplan.profiles.errors import UserError

REPO = Path(__file__).resolve().parents[2]
TABLES = REPO.parent / "shared" / "papers" / "tables"
PUBLISHED_NAMES = {
    "RTX 3090": "rtx-3090",
    "Tesla A40": "a40",
    "RTX 3060": "rtx-3060",
    "RTX 2060": "rtx-2060",
    "GTX 1660Ti": "gtx-1660ti",
    "GTX 1650": "gtx-1650",
}
DEVICES = sorted(device_file().device)


def read_csv(name):
    path = TABLES / name
    if not path.exists():
        pytest.skip(f"{path} is not here; it holds the paper's printed figures")
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_names_the_design_asks_for_are_there():
    asked = {*PUBLISHED_NAMES.values(), "t4", "a10", "a30", "v100", "a100-40gb", "a100-80gb", "h100-sxm", "h200", "l4"}
    assert asked <= set(catalog_names())


@pytest.mark.parametrize("name", catalog_names())
def test_every_entry_is_positive_on_its_full_grid(name):
    """That the grid is full is checked by `OperatorTable` itself."""
    profile = catalog_profile(name)
    assert profile.memory_bytes > 10**9
    assert profile.host_overhead_s > 0
    assert set(profile.operators) == set(AXES)
    for table in profile.operators.values():
        assert min(point.median_s for point in table.points) > 0


@pytest.mark.parametrize("name", DEVICES)
def test_more_work_never_takes_less_time(name):
    profile, device_rates = catalog_profile(name), rates(name)
    for operator, axes in AXES.items():
        curve = Curve.from_table(profile.operators[operator])
        for axis in range(len(axes)):
            shape = [100.0] * len(axes)
            seconds = []
            for extent in (2.0, 50.0, 300.0, 5000.0):
                shape[axis] = min(extent, 512.0) if axes[axis] == "degree" else extent
                seconds.append(curve.seconds(tuple(shape)).seconds)
            assert seconds == sorted(seconds), (operator, axis)
        middle = tuple(100.0 for _ in axes)
        exact = roofline_seconds(operator, middle, device_rates)
        assert curve.seconds(middle).seconds == pytest.approx(exact, rel=0.25)


@pytest.mark.parametrize("gpu", PUBLISHED_NAMES)
def test_table_1_comes_back_within_one_percent(gpu):
    rows = [row for row in read_csv("capgnn_table1_gpu_microbench.csv") if row["gpu"] == gpu]
    assert rows
    profile = catalog_profile(PUBLISHED_NAMES[gpu])
    for operator, (shape, column) in PUBLISHED.items():
        (point,) = (p for p in profile.operators[operator].points if p.shape == shape)
        assert point.provenance == "published"
        assert point.median_s == pytest.approx(median(float(row[f"{column}_s"]) for row in rows), rel=0.01)
        std_s = median(float(row[f"{column}_std_s"]) for row in rows)
        assert point.spread_s == pytest.approx(1.349 * std_s, abs=1e-9)
        # The roofline around the point is calibrated to it.
        around = roofline_seconds(operator, shape, rates(PUBLISHED_NAMES[gpu]))
        assert around == pytest.approx(point.median_s, rel=0.01)


def test_table_3_comes_back():
    for row in read_csv("capgnn_table3_gpu_specs.csv"):
        device = device_file().device[PUBLISHED_NAMES[row["gpu"]]]
        assert device.fp32_flops.value == pytest.approx(float(row["fp32_tflops"]) * 1e12)
        assert device.memory_bytes_per_s.value == pytest.approx(float(row["bandwidth_gb_per_s"]) * 1e9)
        assert device.memory_bytes.value == float(row["memory_gb"]) * 1e9


def test_only_measured_shapes_are_called_published():
    for name in DEVICES:
        has_table = device_file().device[name].table1 is not None
        for operator, table in catalog_profile(name).operators.items():
            published = [point for point in table.points if point.provenance == "published"]
            assert len(published) == (1 if has_table and operator in PUBLISHED else 0)
            assert {point.provenance for point in table.points} <= {"published", "scaled"}


@pytest.mark.parametrize(
    ("typed", "meant"), [("rtx3090", "rtx-3090"), ("RTX 3090", "rtx-3090"), ("A100-80", "a100-80gb"), ("h20", "h200")]
)
def test_unknown_name_suggests_close_ones(typed, meant):
    with pytest.raises(UserError, match=f"{typed!r} is unknown; did you mean .*{meant}"):
        catalog_profile(typed)


def test_unknown_name_far_from_all_lists_the_catalog():
    with pytest.raises(UserError, match="the catalog has a10, "):
        catalog_profile("zzzzzz")


def test_a_measured_profile_wins(tmp_path, monkeypatch):
    measured = catalog_profile("t4").model_copy(update={"note": "measured here"})
    for name in ("a10", "my-box"):
        measured.model_copy(update={"name": name}).save(tmp_path / f"{name}.json")
    monkeypatch.setattr(catalog, "MEASURED_FOLDER", tmp_path)
    assert "my-box" in catalog_names()
    uncached = catalog_profile.__wrapped__
    assert uncached("a10").note == uncached("my-box").note == "measured here"
    assert uncached("t4").note.startswith("catalog: ")


def test_profiles_are_cached():
    assert catalog_profile("t4") is catalog_profile("t4")


def test_the_documentation_lists_every_device():
    text = (REPO / "docs" / "catalog.md").read_text()
    for name in DEVICES:
        assert f"`{name}`" in text
