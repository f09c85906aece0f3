"""Which machines for my graph? One job planned on several clusters, side by side; nothing is measured here.

python examples/rent_or_buy.py -o out/rent_or_buy

The prices are examples: put in what you would pay.
"""

import argparse
import json
from pathlib import Path

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.what_if import Variant, one_host, plan_variants
from gnnplan.profiles.machine import Link

JOB = Job(
    name="rent or buy",
    graph=RmatGraph(source="rmat", num_nodes=100_000, num_edges=2_000_000, num_features=128, num_classes=16),
    model=ModelSpec(kind="sage", num_layers=3, hidden_channels=256),
    training=TrainingSpec(epochs=100_000),  # 200 settings of hyperparameters, 500 epochs each
)
ETHERNET = Link(bytes_per_s=1.25e9, latency_s=50e-6)  # 10 Gbit/s
CLUSTERS = {  # the machines, and what all of them cost an hour
    "1 × RTX 3090": (one_host("node", ["rtx-3090"]), 0.40),
    "4 × RTX 3090, one host": (one_host("node", ["rtx-3090"] * 4), 1.60),
    "4 × RTX 3090, four hosts": (
        Cluster(network=ETHERNET, hosts=(HostSpec(name="node", devices=(DeviceSpec(catalog="rtx-3090"),), count=4),)),
        1.60,
    ),
    "4 × T4, one host": (one_host("node", ["t4"] * 4), 1.40),
    "1 × A100 80 GB": (one_host("node", ["a100-80gb"]), 1.80),
    "1 × H100": (one_host("node", ["h100-sxm"]), 3.00),
}


def answer(name: str, variant: Variant, num_devices: int, price_per_hour: float) -> dict[str, str | float]:
    """A row of the table: seconds an epoch, hours and money for the job, memory of the fullest device."""
    if variant.plan is None:
        return {"machines": name, "fits": variant.reason}
    prediction = variant.plan.prediction
    hours = prediction.epoch_s * JOB.training.epochs / 3600
    fullest = max(load.peak_bytes / load.capacity_bytes for load in prediction.workers)
    return {
        "machines": name,
        "devices": num_devices,
        "used": variant.plan.num_workers,
        "epoch_s": prediction.epoch_s,
        "hours": hours,
        "price": hours * price_per_hour,
        "memory_share": fullest,
    }


def markdown(rows: list[dict]) -> str:
    """The rows as a table."""
    lines = ["| machines | workers used | epoch | all epochs | price | memory of the fullest device |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        if "epoch_s" not in row:
            lines.append(f"| {row['machines']} | | does not fit: {row['fits']} | | | |")
            continue
        times = f"{row['epoch_s'] * 1e3:.1f} ms | {row['hours'] * 60:.0f} min | ${row['price']:.2f}"
        lines.append(f"| {row['machines']} | {row['used']} | {times} | {row['memory_share']:.1%} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, rows: list[dict]) -> None:
    """Bars of the seconds an epoch, with what the whole job costs beside each."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.8 + 0.45 * len(rows)), layout="constrained")
    names = [f"{row['machines']} (uses {row['used']})" for row in rows]
    bars = axes.barh(names, [row["epoch_s"] * 1e3 for row in rows], color="#4477aa")
    labels = [f"{row['epoch_s'] * 1e3:.1f} ms, ${row['price']:.2f}" for row in rows]
    axes.bar_label(bars, labels, padding=4)
    axes.margins(x=0.2)
    axes.invert_yaxis()
    axes.set_xlabel("predicted milliseconds an epoch, and the price of the whole training")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Plans the job on every cluster and writes a table, a picture and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/rent_or_buy"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    graph = load_graph(JOB.graph)
    rows = []
    for name, (cluster, price_per_hour) in CLUSTERS.items():
        num_devices = sum(host.count * sum(device.count for device in host.devices) for host in cluster.hosts)
        variant = plan_variants({name: JOB}, cluster, graph)[name]
        rows.append(answer(name, variant, num_devices, price_per_hour))
        print(f"planned: {name}", flush=True)
    print(markdown(rows))
    (folder / "answer.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    draw(folder / "answer.png", [row for row in rows if "epoch_s" in row])


if __name__ == "__main__":
    main()
