"""Mini-batch training in place of PyG's loop: batches from a drop-in `NeighborLoader`, planned and run.

python examples/mini_batch.py
"""

import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.sampling.loader import NeighborLoader

NUM_EPOCHS = 3


def main() -> None:
    """Profiles the stages, plans an epoch, and says what was planned and what epochs took."""
    spec = SbmGraph(source="sbm", num_nodes=20_000, average_degree=20, num_features=64, num_classes=8, homophily=0.8)
    graph = generate_sbm(spec)
    data = Data(x=torch.as_tensor(graph.x), y=torch.as_tensor(graph.y), edge_index=torch.as_tensor(graph.edge_index))
    loader = NeighborLoader(data, [10, 5], input_nodes=torch.as_tensor(graph.train_mask), batch_size=512, shuffle=True)
    model = GraphSAGE(64, 64, 2, 8)
    stages = LoaderStages(loader, model, torch.optim.Adam(model.parameters(), lr=0.01))
    with stages.undone():
        profile = profile_stages(stages, 8, num_distinct=len(loader))
    plan = dispatch(profile.times, len(loader), cpu_slots=2, gpu_slots=2)
    print(f"{plan.num_gpu_made} of {plan.num_batches} batches made in turn, {max(plan.gap, 0):.1%} above the bound")
    for number in range(NUM_EPOCHS):
        epoch = run_epoch(stages, plan.buffers or Buffers(0, 1), len(loader), number)
        took_s = max(span.end_s for span in epoch.spans)
        loss = sum(epoch.losses) / len(epoch.losses)
        print(f"epoch {number}: took {took_s / plan.epoch_s:.2f} of the predicted time, loss {loss:.3f}")


if __name__ == "__main__":
    main()
