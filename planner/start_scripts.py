"""What starts a plan's workers on machines that this one does not reach: a script for each host, its torchrun agent."""

from __future__ import annotations

from pathlib import Path

from gnnplan.planner.plan import Plan
from gnnplan.profiles.contract import replacing

_PORT = 29500  # torchrun's own
_SCRIPT = """\
#!/bin/sh
# Starts {num_workers} of the plan's {all_workers} workers on {host}. Copy this folder to every host of the plan,
# and run each host's own script there, all within a few minutes; {first} then has measured.json and model.pt.
# MASTER_ADDR is the address of {first} that the others reach, and the only one it listens on; GLOO_SOCKET_IFNAME
# the interface by which hosts reach one another (NCCL_SOCKET_IFNAME where workers have CUDA devices), PYTHON one that
# has gnnplan. Options of checkpoints may follow: where a run was ended, all scripts go on with --resume.
cd "$(dirname "$0")" || exit 1
export GLOO_SOCKET_IFNAME="${{GLOO_SOCKET_IFNAME:-eth0}}" PYTHONSAFEPATH=1
export OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads} NUMBA_NUM_THREADS={threads}
exec "${{PYTHON:-python3}}" -m gnnplan.profiles.agent --max-restarts=0 \\
    --nnodes={num_hosts} --rdzv-conf=rank={rank} --nproc-per-node={num_workers} \\
    --rdzv-backend=gnnplan-loopback --rdzv-endpoint="${{MASTER_ADDR:-{first}}}:${{MASTER_PORT:-{port}}}" \\
    -m gnnplan.runtime plan.json . "$@"
"""


def write_start_scripts(plan: Plan, folder: Path) -> dict[str, Path]:
    """Writes `start_HOST.sh` for every host of a plan whose shards lie in `folder`; by host, in the order of ranks."""
    workers, threads = plan.placement.workers_by_host, plan.placement.threads_by_host
    first = next(iter(workers))
    scripts = {}
    for rank, (host, num_workers) in enumerate(workers.items()):
        path = scripts[host] = folder / f"start_{host}.sh"
        with replacing(path) as temporary:
            temporary.write_text(
                _SCRIPT.format(
                    host=host,
                    first=first,
                    port=_PORT,
                    rank=rank,
                    num_hosts=len(workers),
                    num_workers=num_workers,
                    all_workers=plan.num_workers,
                    threads=threads[host],
                )
            )
    return scripts
