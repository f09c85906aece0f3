"""Mini-batch training in place of PyG's loop: batches from a drop-in `NeighborLoader`, planned and run.

python examples/mini_batch.py
"""

import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.job import SbmGraph
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.mini_batch.train import train
from gnnplan.runtime.sampling.loader import NeighborLoader

NUM_EPOCHS = 3


def main() -> None:
    """Profiles the stages, plans every epoch, and says what was planned and what it took."""
    spec = SbmGraph(source="sbm", num_nodes=20_000, average_degree=20, num_features=64, num_classes=8, homophily=0.8)
    graph = generate_sbm(spec)
    data = Data(x=torch.as_tensor(graph.x), y=torch.as_tensor(graph.y), edge_index=torch.as_tensor(graph.edge_index))
    loader = NeighborLoader(data, [10, 5], input_nodes=torch.as_tensor(graph.train_mask), batch_size=512, shuffle=True)
    model = GraphSAGE(64, 64, 2, 8)
    stages = LoaderStages(loader, model, torch.optim.Adam(model.parameters(), lr=0.01))
    with stages.undone():
        profile = profile_stages(stages, 8, num_distinct=len(loader))
    for number, trained in enumerate(train(stages, profile.times, len(loader), NUM_EPOCHS)):
        plan, epoch = trained.plan, trained.epoch
        took_s = max(span.end_s for span in epoch.spans)
        print(
            f"epoch {number}: {plan.route}, {plan.num_gpu_made} of {plan.num_batches} batches made in the GPU's turn, "
            f"{max(plan.gap, 0):.1%} above the bound, took {took_s / plan.epoch_s:.2f} of the predicted time, "
            f"loss {sum(epoch.losses) / len(epoch.losses):.3f}"
        )


if __name__ == "__main__":
    main()
