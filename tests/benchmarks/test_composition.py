"""What `composition` says of its rows: ratios round by round, and the faster single technique as the rival."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import _first_edition
from benchmarks._composition_runs import BEFORE, Side, Times
from benchmarks._composition_settings import COMPOSITION, LAYOUTS, ONE_HOST, SINGLE, SINGLES, clusters, rows_on
from benchmarks.composition import _result, _summary
from gnnplan.planner.techniques.registry import ours

FORMATS = ("sparse_features", "operator_order")
ROW = rows_on("narrow", quick=True)[0]
NAMES = (COMPOSITION, ONE_HOST, f"{SINGLE}overlap", f"{SINGLE}replicas", BEFORE)


def result(**rounds_s):
    """Of sides that take so long, one number a round."""
    by_name = dict(zip(NAMES, rounds_s.values(), strict=True))
    sides = [Side(name, Path("plan.json"), 2.0, 3.0, "words") for name in NAMES]
    return _result(ROW, sides, {name: Times(tuple(seconds), 0.0) for name, seconds in by_name.items()})


def test_ratios_are_of_the_same_round():
    """A slow spell that hits a whole round changes no ratio."""
    found = result(ours=(1, 10), one=(3, 30), overlap=(2, 20), replicas=(4, 40), before=(5, 50))
    assert found["speedup_over_single"] == pytest.approx(2)
    assert found["best_single"] == "overlap"
    assert found["speedup_over_one_host"] == pytest.approx(3)
    assert found["speedup_over_before"] == pytest.approx(5)
    assert found["planning_over_before"] == pytest.approx(1)


def test_means_are_geometric_and_the_worst_row_is_named():
    """Twice as fast and half as fast are as fast."""
    rows = [result(ours=[1], one=[a], overlap=[a], replicas=[9], before=[a]) for a in (2, 0.5)]
    found = _summary({"narrow": {"cluster": "narrow", "rows": rows}})
    assert found["speedup_over_single"] == pytest.approx(1)
    assert found["worst_over_before"] == pytest.approx(0.5)
    assert all("sides" not in row for row in found["rows"])


def test_a_single_technique_has_no_other_beside_it():
    """No exact technique is free but order and format, and what hosts of one worker with enough memory do not use."""
    for name in (*LAYOUTS, *SINGLES):
        pins = ROW.jobs[f"{SINGLE}{name}"].pin.techniques
        assert {each for each, is_on in pins.items() if is_on} - {name} <= {LAYOUTS[0]}
        free = {*ours()} - {*pins}
        assert {each for each in free if ours()[each].costs == "exact"} == {
            *FORMATS,
            "host_region",
            "destination_chunks",
            "offload",
        }


def test_settings_tell_rows_apart():
    """Ten rows on three clusters, under ten fingerprints."""
    rows = [row for name in clusters(quick=False) for row in rows_on(name, quick=False)]
    assert len(rows) == len({row.fingerprint() for row in rows}) == 10
    longer = replace(rows[0], jobs={**rows[0].jobs, "another": rows[0].jobs[COMPOSITION]})
    assert longer.fingerprint() != rows[0].fingerprint()


def test_the_first_edition_reads_a_profile_of_today(tmp_path):
    """What it does not know is left out; a checkout needs the history."""
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "h0.json").write_text('{"name": "h0", "others_share": 0.1, "anchors": []}')
    (tmp_path / "new" / "cluster.json").write_text('{"name": "c", "device_link": null}')
    path = _first_edition.with_old_profiles(tmp_path / "new", tmp_path / "old")
    assert path.read_text() == '{"name": "c"}'
    assert (tmp_path / "old" / "h0.json").read_text() == '{"name": "h0"}'
