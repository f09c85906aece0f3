"""Seconds of products with parameters, of what is done to single elements, and of loss and step."""

from __future__ import annotations

from gnnplan.planner.costs import ZERO, OperatorCosts, total
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.reduce import rows_of_loss
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.readers.cost import copied_first, costs, guess, in_float32, num_written, with_base
from gnnplan.profiles.curves import Estimate

_MEASURED_WIDTH = 16  # of logits, in every profile


@costs("multiply")
def _multiply(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    x, out = cycle.values[op.reads[0]], cycle.values[op.writes[0]]
    rows, width, out_width = cycle.num_rows(x.name, worker), x.num_columns(worker), out.num_columns(worker)
    if x.layout == "csr":
        work = cost.spmm_features(rows, cycle.num_elements(x.name, worker), out_width)
    elif op.attributes.get("back"):
        work = cost(f"matmul{_of(x)}_grad_input", rows, out_width, width)
    else:
        work = cost(f"matmul{_of(x)}_forward", rows, width, out_width)
    return with_base(cycle, op, worker, cost, work)


@costs("gram")
def _gram(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    grad, x = (cycle.values[name] for name in op.reads)
    if grad.layout == "csr":
        grad, x = x, grad
    rows, width, out_width = cycle.num_rows(x.name, worker), x.num_columns(worker), grad.num_columns(worker)
    if x.layout == "csr":
        return cost.gathered("spmm_transposed", width, cycle.num_elements(x.name, worker), out_width, rows)
    return cost(f"matmul{_of(x)}_grad_weight", rows, width, out_width)


def _of(x: Value) -> str:
    """In names of tables, the precision of rows that are multiplied."""
    return "_half" if x.dtype == "bfloat16" else ""


@costs("column_sum")
def _column_sum(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(in_float32(cycle, op.reads[0], worker) / 2)  # it reads and hardly writes


@costs("activate")
def _activate(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    table = "dropout_forward" if op.attributes["dropout"] else "activation_forward"
    return total([copied_first(cycle, op, worker, cost), cost(table, num_written(cycle, op, worker))])


@costs("activate_grad")
def _activate_grad(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    table = "dropout_backward" if op.attributes["dropout"] else "activation_backward"
    return total([copied_first(cycle, op, worker, cost), cost(table, num_written(cycle, op, worker))])


@costs("dropout")
def _dropout(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost("dropout_forward", num_written(cycle, op, worker)))  # measured with bias and ReLU


@costs("add")
def _add(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """The read that is written over is multiplied by its factor first, if it has one."""
    count, factor = num_written(cycle, op, worker), op.attributes["factors"][op.inplace or 0]
    scaled = [] if factor == 1 else [cost.copy(count)]
    return total([copied_first(cycle, op, worker, cost), *scaled, cost("add", count)])


@costs("scale")
def _scale(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return total([copied_first(cycle, op, worker, cost), cost.copy(num_written(cycle, op, worker))])


@costs("flatten")
def _copy_of_written(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return cost.copy(num_written(cycle, op, worker))


@costs("loss")
def _loss(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """The kernel was measured with as many rows again beside those of the loss, and clears the gradient of all.

    Where all rows count they are single numbers, of which it takes as many as lie in rows that were measured.
    """
    if "index" not in op.attributes:
        return guess(cost("loss", cycle.num_elements(op.reads[0], worker) / _MEASURED_WIDTH, _MEASURED_WIDTH))
    rows = rows_of_loss(cycle, op)[worker]
    width = cycle.values[op.reads[0]].num_columns(worker)
    cleared = max(0, cycle.num_rows(op.reads[0], worker) - 2 * rows) * width
    found = total([cost("loss", rows, width), cost.copy(cleared / 2)])  # clearing only writes
    is_measured = "loss" not in op.attributes and not op.attributes.get("multilabel")
    return found if is_measured else guess(found)


@costs("hits", "scores")
def _hits(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Every set of rows is gathered, then read once."""
    targets = [cycle.indexes[name].target for name in op.attributes["indexes"]]
    rows, width = [cycle.spaces[name].sizes[worker] for name in targets], cycle.values[op.reads[0]].num_columns(worker)
    return guess(total([*(cost("gather_rows", each, width) for each in rows), cost.copy(sum(rows) * width / 2)]))


@costs("step")
def _step(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Adam was measured; others are taken to be it. Parameters are copied before it, and looked at after it."""
    trained = sum(cycle.num_elements(name, worker) for name in op.attributes["parameters"])
    step, watched = cost("optimizer_step", trained), [cost.copy(trained), cost.copy(trained / 2)]
    clipping = [cost.copy(trained)] if op.attributes.keys() & {"clip_norm", "clip_value"} else []
    is_measured = op.attributes["optimizer"] in ("adam", "adamw") and "arguments" not in op.attributes
    return total([step if is_measured else guess(step), *watched, *map(guess, clipping), cost.step_overhead()])


@costs("unflatten", "unstack")
def _nothing(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return ZERO
