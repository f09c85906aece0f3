"""The benchmark of feature slices: its quick form, what counts as right, and cells kept between sessions."""

import json
import math
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from timed_traces import measured

from benchmarks import _common, _results, tensor_parallel
from benchmarks._slices_gains import (
    _BEFORE,
    DECOUPLED,
    PIPELINED,
    STREAMED,
    _communication_share,
    gains_of,
    gains_summary,
)
from benchmarks._tensor_parallel_results import _is_right, busy_of, summary
from benchmarks._tensor_parallel_settings import CHOICE, ONE_HOST, ROWS, SLICES, SLICES_LAYOUT, cells_of, hosts_of
from gnnplan.planner import run
from gnnplan.planner.trace import Span
from gnnplan.profiles.catalog import catalog_profile
from tests import warm


def chosen(layout):
    """A side with a plan of this layout."""
    return SimpleNamespace(plan=SimpleNamespace(choices=[SimpleNamespace(technique=layout)]))


def cell(rows_over_slices, **fields):
    """A cell as results have it."""
    side = {"balance": 1.02, "memory_errors": [0.01, -0.03], "epoch_s": 1.0}
    plain = {
        "is_deep_and_narrow": False,
        "widths_divide": True,
        "bytes_as_formula": True,
        "is_right_layout": True,
        "choice_over_best": 1.0,
        "num_layers": 2,
        "rows_over_slices": rows_over_slices,
        "sides": {SLICES: side, ROWS: side, CHOICE: side},
    }
    return plain | fields


@pytest.mark.long
@pytest.mark.distributed
def test_the_quick_form_sends_bytes_as_the_formula_says(monkeypatch, tmp_path):
    """Two models are trained on two workers in slices, in rows and as chosen; what was sent is the formula's."""
    profile = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1})
    monkeypatch.setattr(_common, "profile_machine", lambda **_: profile)
    monkeypatch.setattr(run, "launch", warm.launch)
    monkeypatch.setattr(tensor_parallel, "OUT", tmp_path)
    result = tensor_parallel.main(quick=True)
    assert [each["model"] for each in result["cells"]] == ["gcn", "gat"]
    assert (result["bytes_as_formula"], result["missing"]) == (True, [])
    for each in result["cells"]:
        slices, rows = (each["sides"][name] for name in (SLICES, ROWS))
        assert (slices["layout"], rows["layout"]) == ("slices", "rows")
        assert sum(slices["sent_bytes"]) == each["formula_bytes"] > 0
        assert each["widths_divide"]
        assert min(slices["busy_s"]) > 0
    assert [each["num_transposes"] for each in result["cells"]] == [4, 8]  # 4 L - 4 and 4 L
    assert result["worst_compute_balance"] >= 1
    assert result["rows_over_slices_by_layers"].keys() == {2}
    (gains,) = result["gain_rows"]
    assert gains["gains"].keys() == _BEFORE.keys()
    assert min(gains["epoch_s"].values()) > 0
    assert 0 < gains["communication_share"] < 1
    assert min(gains["gains"].values()) > 0


@pytest.mark.parametrize(
    ("layout", "rows_over_slices", "is_right"),
    [
        (SLICES_LAYOUT, 2.0, True),
        (SLICES_LAYOUT, 0.98, True),
        (SLICES_LAYOUT, 0.9, False),
        ("halo_exchange", 2.0, False),
        ("halo_exchange", 1.02, True),
        ("halo_exchange", 0.5, True),
    ],
)
def test_the_faster_layout_is_right_and_either_where_they_are_as_good(layout, rows_over_slices, is_right):
    """Three parts in a hundred are no difference."""
    assert _is_right(chosen(layout), rows_over_slices) == is_right


def test_figures_are_over_the_cells_that_they_are_of():
    """Deep and narrow cells make the speed-up, even widths the balance, and all plans the errors of memory."""
    deep = [cell(each, is_deep_and_narrow=True, num_layers=4) for each in (2.0, 8.0)]
    uneven = cell(0.5, widths_divide=False, bytes_as_formula=False, is_right_layout=False)
    uneven["sides"] = {SLICES: {"balance": 3.0, "memory_errors": [-0.4], "epoch_s": 2.0}, ONE_HOST: {"epoch_s": 6.0}}
    uneven["sides"][ONE_HOST]["memory_errors"] = [0.0]
    deep[0]["bytes_as_formula"] = None  # a grid, of which the formula says nothing
    found = summary([*deep, uneven])
    assert found["deep_speedup"] == pytest.approx(4)
    assert (found["worst_compute_balance"], found["worst_memory_error"]) == (1.02, 0.4)
    assert (found["bytes_as_formula"], found["rows_win_somewhere"]) == (False, True)
    assert found["cells_of_formula"] == 2
    assert found["right_layout"] == pytest.approx(2 / 3)
    assert found["speedup_over_one_host"] == pytest.approx(3)
    assert found["rows_over_slices_by_layers"] == pytest.approx({2: 0.5, 4: 4.0})


def of_tasks(*tasks):
    """A trace of tasks: each its worker, epoch, category and seconds."""
    spans = (
        Span(task="t", worker=worker, epoch=epoch, category=category, start_s=0, end_s=seconds)
        for worker, epoch, category, seconds in tasks
    )
    return measured([1.0], spans=tuple(spans))


def test_busy_is_computing_alone_and_the_mean_of_traced_epochs():
    """Waiting in an exchange is not busy."""
    trace = of_tasks((0, 0, "compute", 2), (0, 1, "compute", 4), (0, 0, "communicate", 9), (1, 0, "compute", 1))
    np.testing.assert_allclose(busy_of(trace), [3.0, 0.5])


def test_communication_is_a_share_of_what_tasks_take():
    """An epoch that took longer than the median one has no share above 1."""
    trace = of_tasks((0, 0, "compute", 1), (0, 0, "communicate", 9), (1, 0, "communicate", 6))
    assert _communication_share(trace) == pytest.approx(15 / 16)


def test_settings_are_those_of_the_claim():
    """Two networks, models and widths, two to five layers, on five million edges and four even hosts."""
    cells = [*cells_of(quick=False)]
    assert len({cell.fingerprint for cell in cells}) == len({cell.name for cell in cells}) == 32
    assert all(cell.graph.num_edges >= 5_000_000 for cell in cells)
    assert sum(cell.is_deep_and_narrow for cell in cells) == 8
    assert {ONE_HOST in cell.jobs for cell in cells if cell.mbit == 1000} == {True}
    assert len({(host.cpu_cores, host.link.bytes_per_s) for host in hosts_of(200).hosts}) == 1
    assert hosts_of(200).hosts[0].link.bytes_per_s == pytest.approx(25e6)


def test_pipelines_count_where_communication_has_its_share():
    """Where nearly nothing travels, or nearly nothing else is done, there is nothing to gain; other ideas count."""

    def row(communication_share, gain):
        return {"communication_share": communication_share, "gains": dict.fromkeys(_BEFORE, gain)}

    found = gains_summary([row(0.2, 0.5), row(0.4, 2.0), row(0.6, 8.0), row(0.9, 0.5)])
    assert (found["pipelines"], found["best_pipeline_speedup"]) == (2, 8.0)
    assert found["pipeline_speedup"] == found["streamed_pipeline_speedup"] == pytest.approx(4)
    assert found["gains"][PIPELINED] == pytest.approx(2**0.5)
    assert gains_summary([row(0.2, 2.0)])["pipeline_speedup"] is None


def test_gains_are_of_ways_that_differ_by_one_idea():
    """Four hosts on two networks; the last two ways of each kind have the same chunks, and one lets them overlap."""
    rows = gains_of(quick=False)
    assert len({each.fingerprint for each in rows}) == len({each.name for each in rows}) == 4
    jobs = rows[0].jobs
    assert jobs[DECOUPLED].model.kind == "appnp"
    assert jobs[PIPELINED].pin.decisions == jobs[STREAMED].pin.decisions
    assert (jobs[PIPELINED].pin.overlap, jobs[STREAMED].pin.overlap) == (True, False)
    assert jobs[STREAMED].pin.techniques["offload"]


@pytest.mark.long
def test_it_goes_on_where_it_stopped(monkeypatch, tmp_path):
    """A cell that was kept is not run again, unless its settings are others now."""

    class StopError(Exception):
        """A session ends."""

    ran, stop_after = [], 3

    def cell_result(of, sides):
        if len(ran) == stop_after:
            raise StopError
        ran.append(of.name)
        of_layers = {"num_layers": of.num_layers, "is_deep_and_narrow": of.is_deep_and_narrow}
        return cell(2.0, **of_layers)

    @contextmanager
    def cluster(*_):
        yield lambda: None, nullcontext

    monkeypatch.setattr(_results, "RESULTS", tmp_path)
    monkeypatch.setattr(tensor_parallel, "_cluster", cluster)
    monkeypatch.setattr(tensor_parallel, "sides_of", lambda *_: {})
    monkeypatch.setattr(tensor_parallel, "cell_result", cell_result)
    monkeypatch.setattr(
        tensor_parallel,
        "gains_result",
        lambda sides: {"gains": dict.fromkeys(_BEFORE, 2.0), "communication_share": 0.5},
    )
    monkeypatch.setattr(tensor_parallel, "_show", lambda cells: None)
    monkeypatch.setattr(tensor_parallel, "_show_gains", lambda rows: None)
    with pytest.raises(StopError):
        tensor_parallel.main(quick=False)
    cells = [*cells_of(quick=False)]
    names = [each.name for each in sorted(cells, key=lambda each: (each.mbit, -each.num_layers))]  # as they are run
    kept = json.loads((tmp_path / "tensor_parallel.json").read_text())
    assert sorted(each["part"] for each in kept["cells"]) == sorted(names[:3])
    late = [f"gain_rows {each.name}" for each in gains_of(quick=False) if each.mbit != 200]
    assert kept["missing"] == [*(f"cells {each.name}" for each in cells if each.name not in names[:3]), *late]

    next(each for each in kept["cells"] if each["part"] == names[1])["settings"] = "others"
    (tmp_path / "tensor_parallel.json").write_text(json.dumps(kept))
    stop_after = math.inf
    ran.clear()
    result = tensor_parallel.main(quick=False)
    assert ran == [names[1], *names[3:]]
    assert ([each["part"] for each in result["cells"]], result["missing"]) == ([each.name for each in cells], [])
    assert result["pipeline_speedup"] == pytest.approx(2)
