"""What the process itself takes: more with compiled kernels, with a class of torch's optimizers, with PyG."""

from dataclasses import replace

import pytest

from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.composition.chosen import Chosen, composed

BYTES = {"process_base_bytes": 1000, "compiled_kernel_bytes": 200, "optimizer_class_bytes": 30, "pyg_bytes": 4}
PROFILE = catalog_profile("t4").model_copy(update=BYTES)


def cycle_of(kind, of_kind, **attributes):
    """A model's training, with other attributes of the operators of a kind."""
    cycle = composed(Chosen(kind, ()).case, Chosen(kind, ()).choices())
    programs = {
        name: tuple(
            replace(op, attributes={**op.attributes, **attributes}) if op.kind == of_kind else op for op in program
        )
        for name, program in cycle.programs.items()
    }
    return replace(cycle, programs=programs)


@pytest.mark.parametrize(
    ("kind", "of_kind", "attributes", "base_bytes"),
    [
        ("gcn", "", {}, 1000),
        ("gat", "", {}, 1200),
        ("gcn", "step", {"optimizer": "rmsprop"}, 1030),
        ("gcn", "step", {"optimizer": "adam", "arguments": (("amsgrad", True),)}, 1030),
        ("gcn", "loss", {"module": "convs.0"}, 1034),
        ("gat", "loss", {"module": "convs.0"}, 1234),
    ],
)
def test_what_is_imported_counts_where_it_is_needed(kind, of_kind, attributes, base_bytes):
    """PyG imports torch's compiler, as the classes of `torch.optim` do."""
    assert estimate_memory(cycle_of(kind, of_kind, **attributes), 0, PROFILE).base_bytes == base_bytes


def test_code_for_halves_counts_where_they_are_read():
    """Their sums are made by compiled loops besides."""
    cycle = cycle_of("gcn", "")
    halved = replace(cycle, values={n: replace(v, dtype="bfloat16") for n, v in cycle.values.items()})
    profile = PROFILE.model_copy(update={"half_kernel_bytes": 5})
    assert estimate_memory(halved, 0, profile).base_bytes == 1205
    assert estimate_memory(cycle, 0, profile).base_bytes == 1000
