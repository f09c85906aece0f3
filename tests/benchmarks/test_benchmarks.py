"""The benchmarks' command line, and the benchmark that proves exactness in its quick form."""

import json
import subprocess
import sys
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.typing as pyg_typing
from emulating import needs_emulation
from standing_in import stand_in

from benchmarks import _common, exactness, halo_blocks, models, one_device, paper_machines, routes
from benchmarks.__main__ import main
from benchmarks._exactness_cases import KINDS
from benchmarks.sampling import uniformity
from gnnplan.planner.techniques.registry import ours
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.kernels.csc import Csc
from gnnplan.profiles.machine import MachineProfile
from tests import warm

HAS_BACKEND = pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE
ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch, capsys, tmp_path):
    """Runs a benchmark's command line here, where everything is imported already; gives its result.

    What is kept of its full form has the same figures: else it was taken by other code, and is to be taken again.
    Where it plans for this machine, a published device stands for it: measuring it takes minutes.
    """

    def run(*arguments):
        module = import_module(f"benchmarks.{arguments[0]}")
        if hasattr(module, "this_machine"):
            monkeypatch.setattr(_common, "profile_machine", lambda **_: stand_in())
            monkeypatch.setattr(module, "OUT", tmp_path)
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        assert main() == 0
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        kept = ROOT / "benchmarks" / "results" / f"{arguments[0]}.json"
        if kept.exists():
            assert result.keys() - json.loads(kept.read_text()).keys() == set()
        return result

    num_threads = torch.get_num_threads()
    yield run
    torch.set_num_threads(num_threads)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.distributed
def test_quick_exactness_holds(benchmark, monkeypatch):
    """All models, and all pairs of techniques that may go together, act and give their references' numbers to 1e-5."""
    monkeypatch.setattr(exactness, "launch", warm.launch)
    result = benchmark("exactness", "--quick")
    assert result["benchmark"] == "exactness"
    assert result["cases"] == len(result["rows"]) > 90
    assert {row["model"] for row in result["rows"]} == set(KINDS)
    assert result["pairs"] == len([*combinations(ours(), 2)])
    assert result["pairs"] > result["pairs_allowed"] == result["pairs_tested"] == result["pairs_acting"]
    assert 0 < result["max_rel_l2"] <= 1e-5
    halves = [row for row in result["rows"] if "half_precision" in row["chosen"]]
    assert max(max(row["logits_rel_l2"], row["loss_rel"]) for row in halves) < 2e-2


def test_an_interrupted_exactness_goes_on(tmp_path, monkeypatch):
    """Numbers of workers that have run are read; with other code all run again."""
    ran, breaks = [], [3]

    def launch(module, arguments, *, hosts, folder, environment, on_event):
        (host,) = hosts
        ran.append(host.num_workers)
        if host.num_workers in breaks:
            raise RuntimeError("the machine is gone")
        row = {"model": "gcn", "num_workers": host.num_workers, "chosen": [], "acting": []}
        (folder / "rows_0.json").write_text(json.dumps([[0, {**row, "logits_rel_l2": 1e-7, "loss_rel": 0.0}]]))

    monkeypatch.setattr(exactness, "OUT", tmp_path)
    monkeypatch.setattr(exactness, "launch", launch)
    with pytest.raises(RuntimeError, match="gone"):
        exactness.main(quick=False)
    breaks.clear()
    assert exactness.main(quick=False)["cases"] == 4
    assert ran == [1, 2, 3, 3, 4]
    monkeypatch.setattr(exactness, "code", lambda: "other")
    exactness.main(quick=False)
    assert ran[5:] == [1, 2, 3, 4]


@pytest.mark.parametrize("quick", [True, False])
def test_one_device_puts_only_full_profiles_into_the_catalog(quick, tmp_path, monkeypatch):
    """The one that it plans by, not a quick one that lies beside it."""
    made = []

    def profile_machine(*, num_workers, quick, on_progress):
        made.append(quick)
        return catalog_profile("t4").model_copy(update={"device_name": "NVIDIA Tee Four", "note": f"quick {quick}"})

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(_common, "profile_machine", profile_machine)
    monkeypatch.setattr(one_device, "OUT", tmp_path / "out")
    monkeypatch.setattr(one_device, "MEASURED_FOLDER", tmp_path / "catalog")
    monkeypatch.setattr(one_device, "predict_and_run", lambda *_: {})
    (tmp_path / "out" / "one_device_cuda").mkdir(parents=True)
    catalog_profile("t4").save(tmp_path / "out" / "one_device_cuda" / f"profile_1{'' if quick else '_quick'}.json")
    one_device.main(quick)
    assert made == [quick]
    files = list((tmp_path / "catalog").glob("*.json"))
    assert [file.name for file in files] == ([] if quick else ["tee-four.json"])
    assert [MachineProfile.load(file).note for file in files] == ([] if quick else ["quick False"])


def test_unknown_benchmark_is_refused():
    """A name that does not exist ends with argparse's error, which lists those that do."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "no-such-benchmark"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "invalid choice: 'no-such-benchmark'" in done.stderr
    assert "exactness" in done.stderr
    assert "_common" not in done.stderr


@pytest.mark.long
def test_quick_sampling_is_uniform(benchmark):
    """Every hop of the sampler passes the chi-square test with many draws, and nothing is drawn twice."""
    result = benchmark("sampling", "--quick")
    assert (result["uniform"], result["no_duplicates"]) == (True, True)
    assert len(result["rows"]) == 3
    assert all(row["num_draws"] > 1000 and row["degrees_of_freedom"] > 50 for row in result["rows"])
    assert result["cpu_equals_gpu"] is True


@pytest.mark.long
def test_quick_dispatch_is_near_the_optimum(benchmark):
    """Plans for seven tuples of stage times, those that break the paper's code among them."""
    result = benchmark("dispatch", "--quick")
    assert result["tuples"] == 7
    assert result["proven_optimal"] > 0
    assert 0 <= result["mean_gap_to_found"] <= result["mean_gap"] <= 0.02
    assert result["worst_gap_to_found"] <= result["worst_gap"] <= 0.1
    assert result["mean_bound_gap"] < result["paper_mean_bound_gap"]
    assert result["mean_regret_with_threads"] <= result["worst_regret_with_threads"] <= 0.01


@pytest.mark.long
def test_quick_routes_run(benchmark, monkeypatch):
    """Every route trains, none is timed as nothing, and none trains batches of the epoch that was profiled."""
    epochs, run_epoch = [], routes.run_epoch

    def watched(stages, buffers, num_batches, epoch, **options):
        epochs.append(epoch)
        return run_epoch(stages, buffers, num_batches, epoch, **options)

    monkeypatch.setattr(routes, "run_epoch", watched)
    (row,) = benchmark("routes", "--quick")["rows"]
    assert sorted(set(epochs)) == [1, 2]
    assert epochs.count(1) == epochs.count(2) == len(row["seconds"].keys() - {"PyG"})
    assert {"planner", "CPU only", "GPU only"} <= set(row["seconds"])
    assert all(median > 0 for median, _ in row["seconds"].values())
    assert row["busy"].keys() == {"planner", "CPU only", "GPU only"}
    assert all(0 < busy["gpu"] <= 1 for busy in row["busy"].values())
    assert row["gain_that_the_bound_allows"] > 0


def test_every_machine_has_a_result_of_its_own(benchmark, monkeypatch, tmp_path):
    """By its device and number of cores; a run elsewhere does not write over it."""
    asked = []

    def routes_of(quick):
        asked.append(quick)
        return {"file": routes.file_of("NVIDIA H200", 8), "rows": []}

    monkeypatch.setattr(routes, "main", routes_of)
    monkeypatch.setattr("benchmarks._results.RESULTS", tmp_path)
    result = benchmark("routes")
    assert asked == [False]
    assert json.loads((tmp_path / "routes_nvidia-h200_8_cores.json").read_text()) == result
    assert (result["benchmark"], result["rows"]) == ("routes", [])
    assert "file" not in result


def test_quick_cpu_pipeline_is_predicted(benchmark):
    """Every epoch has its prediction; nothing is said of how good it is, for the machine may be busy."""
    result = benchmark("cpu_pipeline", "--quick")
    assert {1, 2} <= {row["threads"] for row in result["rows"]}
    assert result["worst_error"] >= result["mean_error"] > 0
    for row in result["rows"]:
        assert row["predicted_s"] > 0
        assert min(row["epochs_s"]) > 0
        assert 0 <= row["others_share"] <= 1


@pytest.mark.long
def test_quick_hit_rate_has_priority_on_top(benchmark):
    """Overlap priority is never below FIFO or LRU at once, above on 4 parts, and finds everything at coverage."""
    result = benchmark("hit_rate", "--quick")
    assert (result["on_top_everywhere"], result["least_rate_at_coverage"]) == (True, 1.0)
    assert {(row["parts"], row["lookups"]) for row in result["rows"]} == {
        (parts, lookups) for parts in (2, 4) for lookups in ("at_once", "one_by_one")
    }
    assert [counts["above"] + counts["ties"] for counts in result["at_once"]] == [12, 12]
    assert result["at_once"][1]["above"] > 0
    for row in result["exceptions"]:
        assert (row["parts"], row["lookups"]) == (4, "one_by_one")
        assert row["share_of_coverage"] <= 0.1 or row["overlap"] >= max(row["fifo"], row["lru"])


@pytest.mark.long
def test_quick_paper_machines_stand_beside_the_paper(benchmark):
    """Every group has both sides' speed-ups; pruning never leaves the devices less even; equal devices gain nothing."""
    result = benchmark("paper_machines", "--quick")
    rows = {row["group"]: row for row in result["rows"]}
    assert rows.keys() == {"x2", "x3", "x5"}
    assert rows["x2"]["paper_speedup"] == pytest.approx(48.65 / 19.13)
    assert rows["x2"]["speedups"]["by speed"] == 1.0
    for row in rows.values():
        assert len(row["rapa"]) == 2
        assert all(r["max_over_mean_after"] <= r["max_over_mean_before"] + 1e-9 for r in row["rapa"])
        assert min(row["speedups"].values()) > 0
    assert -1 <= result["rank_correlation"] <= 1


def test_quick_halo_blocks_are_compared_by_all_rules(benchmark):
    """The whole matrix, a block and its transpose; by every rule a prediction is there, none is judged."""
    result = benchmark("halo_blocks", "--quick")
    whole, forward, backward = result["rows"]
    assert whole["num_written"] == whole["num_read"] > forward["num_written"]
    assert (forward["num_written"], forward["num_read"]) == (backward["num_read"], backward["num_written"])
    assert min(row[rule] for row in result["rows"] for rule in halo_blocks._RULES) > 0
    assert all(1 < row["num_in_use"] <= row["num_read"] for row in result["rows"])
    assert result["worst_error"] >= result["mean_error"] >= 0


@pytest.mark.long
def test_quick_rapa_is_near_the_optimum(benchmark):
    """Every small case is solved, and none is far above; both costs have their say on the larger one."""
    result = benchmark("rapa", "--quick")
    assert result["cases"] == result["proven_optimal"] == len(result["gaps"]) > 10
    assert all(-1e-9 <= row["gap"] < 0.15 for row in result["gaps"])
    for row in result["gaps"]:
        influences = [row[f"{which}_influence"] for which in ("least", "heuristic", "paper")]
        assert influences == sorted(influences)
        assert 0 <= influences[0] <= influences[-1] <= 1 + 1e-9
    assert [row["cost"] for row in result["rows"]] == ["seconds", "paper"]
    for row in result["rows"]:
        assert row["max_over_mean_s"] >= 1
        assert 0 <= row["pruned_influence_share"] <= row["pruned_halo_share"] < 1


@pytest.mark.long
@pytest.mark.distributed
@needs_emulation
def test_quick_fluctuation_runs_in_weather(benchmark):
    """Both variants run in calm and in changing weather; every figure is there, none is judged."""
    result = benchmark("fluctuation", "--quick")
    (row,) = result["rows"]
    (weather,) = row["weathers"]
    base, ours = weather["variants"]
    assert (row["row"], weather["weather"], weather["best_static"]) == (
        "gcn small",
        "links and processors",
        base["variant"],
    )
    assert [variant["variant"] for variant in weather["variants"]] == ["all communicated", "hybrid, partial reduce"]
    assert base["least_cut"] == 1.0
    assert result["delay_cut_total"] == pytest.approx(ours["least_cut"])
    assert result["delay_cut_partial"] is result["worst_accuracy_gap_pct"] is None
    for variant in (base, ours):
        assert variant["counted"] == variant["epochs"] - 3
        assert min(variant["calm_epoch_s"], variant["mean_epoch_s"], variant["simulated_p95_epoch_s"]) > 0
        assert variant["mean_members"] == 2.0


@pytest.mark.long
def test_quick_tiles_are_compared_with_the_whole(benchmark):
    """One matrix both ways, cut for the wider rows; nothing is said of how fast, for the machine may be busy."""
    result = benchmark("tiles", "--quick")
    assert [row["transposed"] for row in result["rows"]] == [False, False, True, True]
    assert [(row["way"], row["tiles"]) for row in result["rows"]] == [("loops", 1), ("tiles", 2)] * 2
    assert result["loops_speedup"] >= result["loops_worst_speedup"] > 0
    assert result["tiles_speedup"] >= result["tiles_worst_speedup"] > 0


@pytest.mark.long
@needs_emulation
def test_quick_group_sum_is_timed(benchmark):
    """Both sides, of which the workers see that they give the same sum, and every size."""
    result = benchmark("group_sum", "--quick")
    assert [row["num_bytes"] for row in result["rows"]] == [2**16, 2**20, 2**23]
    assert all(row[f"{side}_s"] > 0 for row in result["rows"] for side in ("mailbox", "gloo"))
    assert result["over_gloo"] > 0


def uniform_draws(num_draws, degree, fan_out, skew):
    """Counts of `num_draws` subsets of one target's neighbours; a share `skew` of them leaves out the last."""
    rng = np.random.default_rng(0)
    counts = np.zeros(degree, np.int64)
    for _ in range(num_draws):
        choices = degree - 1 if rng.random() < skew else degree
        counts[rng.choice(choices, fan_out, replace=False)] += 1
    return counts


@pytest.mark.parametrize(("skew", "is_uniform"), [(0.0, True), (0.2, False)])
def test_chi_square_tells_uniform_from_skewed(skew, is_uniform):
    """The sampling benchmark's statistic passes uniform subsets, and finds one neighbour drawn a fifth too seldom."""
    graph = Csc(np.array([0, 0, 20, 21]), np.zeros(21, np.int32))
    counts = np.append(uniform_draws(4000, 20, 6, skew), 500)
    row = uniformity(graph, counts, 6)
    assert (row["num_targets"], row["degrees_of_freedom"], row["num_draws"]) == (1, 19, 24_000)
    assert (row["p_value"] > 0.01) == is_uniform


@pytest.mark.skipif(not HAS_BACKEND, reason="PyG's own loader needs pyg-lib or torch-sparse to sample")
def test_quick_loader_is_compared_with_pyg(benchmark):
    """Both loaders give batches of the same shapes, with and without workers, and are timed."""
    result = benchmark("loader", "--quick")
    assert [row["num_workers"] for row in result["rows"]] == [0, 2]
    assert [(row["batches"], row["fan_outs"]) for row in result["rows"]] == [(8, [10, 5])] * 2
    assert result["speedup_over_pyg"] > 0
    assert all(row["size_difference"] < 0.02 and row["edges_a_batch"] > 1000 for row in result["rows"])


@pytest.mark.skipif(HAS_BACKEND, reason="PyG can sample here")
def test_loader_benchmark_says_what_is_missing(monkeypatch, capsys):
    """Without a sampler for PyG the loader benchmark ends in one line and exit code 2."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", "loader", "--quick"])
    assert main() == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("benchmarks: PyG's NeighborLoader cannot sample here")


def test_routes_go_on_where_they_were_cut_short(monkeypatch, tmp_path):
    """A model's row is kept before the next model begins, and is not taken again."""
    asked: list[str] = []

    class Runs:
        def of(self, kind: str) -> dict:
            asked.append(kind)
            if asked == ["gcn", "sage"]:
                raise KeyboardInterrupt
            return {"regret": 0.01, "prediction_error": -0.02, "gain_over_extremes": 1.5, "times_s": {"of": kind}}

    monkeypatch.setattr("benchmarks._results.RESULTS", tmp_path)
    monkeypatch.setattr(routes, "_runs", lambda *_: Runs())
    monkeypatch.setattr(routes, "_show", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        routes.main(quick=False)
    result = routes.main(quick=False)
    assert asked == ["gcn", "sage", "sage", "gat"]
    assert [row["model"] for row in result["rows"]] == ["gcn", "sage", "gat"]
    assert result["gain_over_better_extreme"] == pytest.approx(1.5)


def test_paper_machines_go_on_where_they_were_cut_short(monkeypatch, tmp_path):
    """A row is kept before the next is planned, and is not planned again by the same code, but by another."""
    planned: list[str] = []

    def plan(row, _graph):
        planned.append(row.name)
        if len(planned) == 2:
            raise KeyboardInterrupt
        return {"model": row.kind, "dataset": row.label, "group": row.group, "paper_speedup": 2.0, "speedups": {}}

    monkeypatch.setattr("benchmarks._results.RESULTS", tmp_path)
    monkeypatch.setattr(paper_machines, "_SPECS", {"Fr": paper_machines._SMALL})
    monkeypatch.setattr(paper_machines, "GROUPS", {"x2": ("t4", "t4")})
    monkeypatch.setattr(paper_machines, "_planned", plan)
    with pytest.raises(KeyboardInterrupt):
        paper_machines.main(quick=False)
    assert [row["row"] for row in paper_machines.main(quick=False)["rows"]] == ["gcn Fr x2", "sage Fr x2"]
    assert planned == ["gcn Fr x2", "sage Fr x2", "sage Fr x2"]
    monkeypatch.setattr(paper_machines, "code", lambda: "another")
    paper_machines.main(quick=False)
    assert planned[3:] == ["gcn Fr x2", "sage Fr x2"]


@pytest.mark.long
def test_quick_fuzz_finds_nothing(benchmark):
    """Every mutated document and graph is refused in a line or used, and no edited plan trains to other numbers."""
    result = benchmark("fuzz", "--quick")
    assert result["findings"] == []
    assert (result["refused"] > 0, result["accepted"] > 0, result["plans_run"] > 0) == (True, True, True)


@pytest.mark.long
@pytest.mark.distributed
def test_quick_faults_are_survived(benchmark):
    """A worker killed after a checkpoint: one line, nothing left, and on to the same weights."""
    result = benchmark("faults", "--quick")
    assert result["cells"] == result["resumed_bit_identical"] == 1
    findings = [result[name] for name in ("hangs", "wrong_numbers", "unnamed", "left_behind", "not_resumed")]
    assert findings == [0] * 5
    assert result["worst_seconds_to_end"] < 35


@pytest.mark.long
@pytest.mark.distributed
def test_quick_checkpoints_are_written_and_gone_on_from(benchmark):
    """Some are written while training goes on, and a run goes on from one."""
    result = benchmark("checkpoints", "--quick")
    (row,) = result["rows"]
    assert row["checkpoints"] >= 1
    assert row["part_bytes"] > 0
    assert row["resumed_over_first"] > 0
    assert result["elastic"] is None


@pytest.mark.long
@pytest.mark.distributed
def test_quick_models_are_exact(benchmark, monkeypatch):
    """Tuned baselines and another module, planned and trained on two workers; six are refused with their lines."""
    monkeypatch.setattr(models, "launch", warm.launch)
    result = benchmark("models", "--quick")
    assert result["configurations"] == 3 < result["traced"]
    assert 0 < result["max_rel_l2"] <= 1e-5
    assert result["median_workers_float32_rel_l2"] <= 1e-5
    assert result["refused_clearly"] == len(result["refused"]) == 6


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.skipif(
    not (_common.DATASETS / "amazon_photo.npz").exists(), reason="needs the real graphs beside the repository"
)
def test_quick_halves_stand_beside_the_best_exact_plan(benchmark):
    """Both are planned, run and evaluated; rows take less memory, and accuracy is about the same."""
    with warm.runs():
        result = benchmark("half_precision", "--quick")
    (row,) = result["rows"]
    assert 0.4 < result["mean_rows_memory_ratio"] == row["rows_memory_ratio"] < 0.8
    assert row["losses"]["halves"] == pytest.approx(row["losses"]["exact"], rel=0.02)
    assert row["losses"]["halves"] != row["losses"]["exact"]
    assert result["accuracy_gaps_pct"].keys() == {"gcn on amazon_photo"}
    (trained,) = result["trained"]
    assert min(trained[side]["accuracy_pct"] for side in ("exact", "halves")) > 30


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.skipif(
    not (_common.DATASETS / "amazon_photo.npz").exists(), reason="needs the real graphs beside the repository"
)
def test_quick_decoupled_forms_are_trained_beside_coupled_ones(benchmark):
    """Both are planned, run and evaluated; the planner takes one of them."""
    with warm.runs():
        result = benchmark("decoupled", "--quick")
    (row,) = result["rows"]
    assert (row["graph"], row["model"], row["seeds"]) == ("amazon_photo", "gcn", 1)
    assert min(row["coupled_accuracy_pct"], row["decoupled_accuracy_pct"]) > 50
    assert result["epoch_speedup"] == pytest.approx(row["coupled_epoch_s"] / row["decoupled_epoch_s"])
    assert {row["taken"], row["faster"]} <= {"coupled", "decoupled"}
