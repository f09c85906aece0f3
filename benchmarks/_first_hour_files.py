"""What a newcomer saves in the first hour: scripts, jobs, clusters. Every graph has four classes."""

_DRAWN = """import numpy as np

generator = np.random.default_rng(0)
y = generator.integers(0, 4, 3_000)
source = generator.integers(0, 3_000, 30_000)
by_class = np.argsort(y, kind="stable")
target = by_class[np.argsort(np.argsort(y[source], kind="stable"), kind="stable") * 3_000 // 30_000]
x = generator.normal(size=(3_000, 32)).astype(np.float32) + np.eye(4, 32, dtype=np.float32)[y]
"""

NPZ_PY = f"""{_DRAWN}np.savez("my_graph.npz", edge_index=np.stack([source, target]), num_nodes=3_000, x=x, y=y)
"""

EDGES_PY = f"""{_DRAWN}np.savetxt("edges.txt", np.stack([source, target], axis=1), fmt="%d")
np.save("x.npy", x)
np.save("y.npy", y)
"""

_AS_DATA = f"""{_DRAWN}
import torch
from torch_geometric.data import Data

edge_index = torch.from_numpy(np.stack([source, target]))
data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=torch.from_numpy(y))
"""

DATA_PY = f"""{_AS_DATA}
import gnnplan

trained = gnnplan.train({{"model": "gcn", "epochs": 40}}, graph=data)
print("test accuracy", trained.measured.accuracy["test"])
"""

MODULE_PY = f"""{_AS_DATA}
import gnnplan
from torch_geometric.nn import GCNConv


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.conv2 = GCNConv(32, 32), torch.nn.LayerNorm(32), GCNConv(32, 4)

    def forward(self, x, edge_index):
        return self.conv2(self.norm(self.conv1(x, edge_index)).relu(), edge_index)


model = gnnplan.train(model=Net(), graph=data, epochs=40).model
right = model.eval()(data.x, data.edge_index).argmax(1) == data.y
print("accuracy", float(right.float().mean()))
"""

LOADER_PY = f"""{_AS_DATA}
from torch_geometric.nn import GraphSAGE

from gnnplan.runtime.sampling import NeighborLoader  # in place of torch_geometric.loader

torch.manual_seed(0)
loader = NeighborLoader(data, num_neighbors=[10, 5], batch_size=256, shuffle=True)
model = GraphSAGE(32, 32, 2, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    right = 0
    for batch in loader:
        optimizer.zero_grad()
        scores = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size]).backward()
        optimizer.step()
        right += int((scores.argmax(1) == batch.y[: batch.batch_size]).sum())
print("accuracy of the last epoch", right / data.num_nodes)
"""

JOB = """schema_version = 1
graph = { source = "sbm", num_nodes = 2000, average_degree = 12.0, num_features = 64, num_classes = 4 }
model = { kind = "gcn", num_layers = 2, hidden_channels = 64 }
training = { epochs = 40 }
"""

MINI_BATCH = """schema_version = 1
graph = { source = "sbm", num_nodes = 4000, num_features = 32, num_classes = 4, feature_signal = 2.0 }
model = { kind = "sage", num_layers = 2, hidden_channels = 32 }
training = { epochs = 5 }
mini_batch = { fan_outs = [10, 5], batch_size = 256 }
"""

CLUSTER = """schema_version = 1
hosts = [{ name = "node", price_per_hour = 1.20, devices = [{ catalog = "rtx-3090", count = 2 }] }]
"""

ONE_H100 = """schema_version = 1
hosts = [{ name = "node", price_per_hour = 3.00, devices = [{ catalog = "h100-sxm" }] }]
"""

TWO_JOB = """schema_version = 1
graph = { source = "sbm", num_nodes = 8000, num_classes = 4 }
training = { epochs = 20 }
pin = { num_workers = 2 }
"""

TWO_MACHINES = """schema_version = 1
network = { bytes_per_s = 1.25e8, latency_s = 50e-6 }
hosts = [
  { name = "one", devices = [{ profile = "out/here.json" }] },
  { name = "two", devices = [{ profile = "out/here.json" }] },
]
"""

STATISTICS = """kind = "statistics"
schema_version = 1
name = "mine"
num_nodes = 100_000_000
num_edges = 1_500_000_000
num_features = 128
num_classes = 100
degree_exponent = 2.2
"""

SWEEP = """kind = "sweep"
schema_version = 1
name = "rent_what"

[device.t4]
price_per_hour = 0.35

[device.a100-80gb]
price_per_hour = 1.80

[[machines]]
devices = ["t4", "a100-80gb"]
hosts = [1, 4, 16]
per_host = [1, 8]
network_bytes_per_s = [1.25e9]
"""
