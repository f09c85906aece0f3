"""The compiled event loop behind `gnnplan.planner.simulator.engine`: arrays in, arrays out."""

from __future__ import annotations

from numba import njit

from gnnplan.planner.simulator.rates import end_at_rates, end_of_work, end_under_quota
from gnnplan.planner.simulator.tables import NEVER_NS


@njit(cache=True, nogil=True)
def _push(heap, base, size, key_ns, task):
    """Binary heap of tasks at heap[base : base + size], ordered by (key_ns[task], task)."""
    key, hole = key_ns[task], size
    while hole > 0:
        parent = (hole - 1) >> 1
        other = heap[base + parent]
        if key_ns[other] < key or (key_ns[other] == key and other < task):
            break
        heap[base + hole] = other
        hole = parent
    heap[base + hole] = task


@njit(cache=True, nogil=True)
def _pop(heap, base, size, key_ns):
    first, last = heap[base], heap[base + size - 1]
    key, hole, child = key_ns[last], 0, 1
    while child < size - 1:
        task = heap[base + child]
        if child + 1 < size - 1:
            sibling = heap[base + child + 1]
            if key_ns[sibling] < key_ns[task] or (key_ns[sibling] == key_ns[task] and sibling < task):
                child, task = child + 1, sibling
        if key < key_ns[task] or (key == key_ns[task] and last < task):
            break
        heap[base + hole] = task
        hole = child
        child = 2 * hole + 1
    heap[base + hole] = last
    return first


@njit(cache=True, nogil=True)
def _touch(touched, is_touched, resource, num_touched):
    if is_touched[resource]:
        return num_touched
    is_touched[resource] = True
    touched[num_touched] = resource
    return num_touched + 1


@njit(cache=True, nogil=True)
def _run(running, num_running, end_ns, task):
    _push(running, 0, num_running, end_ns, task)
    return num_running + 1


@njit(cache=True, nogil=True)
def _slowest_end(now, work_ns, members, resource_of, change_ns, share):
    """When work that a group begins now is done: by the member whose rates have it last longest."""
    end = now
    for member in members:
        end = max(end, end_of_work(now, work_ns, change_ns, share, resource_of[member]))
    return end


@njit(cache=True, nogil=True)
def _reset(tables, work):
    work.num_waiting_for[:] = tables.num_predecessors
    work.ready_ns[:] = 0
    work.arrive_ns[:] = -1
    work.start_ns[:] = -1
    work.end_ns[:] = -1
    work.queue_size[:] = 0
    work.busy[:] = False
    work.is_touched[:] = False
    work.num_arrived[:] = 0
    work.period_of[:] = -1
    work.is_steady[:] = (tables.change_ns[:, 0] == NEVER_NS) & (tables.share[:, 0] == 1.0)


@njit(cache=True, nogil=True)
def play_once(tables, work, duration_ns):
    """Plays into `work` and returns how many tasks ended; a task that has started does end.

    A resource is touched when it was freed or got a ready task: only those need serving.
    """
    # The loop reads local arrays: fetching one from a tuple counts references, at five times the cost.
    successor_start, successors, num_predecessors, resource_of = tables[:4]
    queue_start, group_of, group_start, group_members = tables[4:8]
    quota_ns, period_ns, phase_ns, charged, charge_ns, change_ns, share = tables[8:]
    num_waiting_for, ready_ns, arrive_ns, start_ns, end_ns = work[:5]
    queue, queue_size, busy, touched, is_touched, num_arrived, running, period_of, used_ns, is_steady = work[5:]
    _reset(tables, work)
    num_touched, num_running, num_ended, now = 0, 0, 0, 0
    for task in range(duration_ns.size):
        if num_predecessors[task] == 0:
            resource = resource_of[task]
            _push(queue, queue_start[resource], queue_size[resource], ready_ns, task)
            queue_size[resource] += 1
            num_touched = _touch(touched, is_touched, resource, num_touched)
    while True:
        for position in range(num_touched):
            resource = touched[position]
            is_touched[resource] = False
            if busy[resource] or queue_size[resource] == 0:
                continue
            task = _pop(queue, queue_start[resource], queue_size[resource], ready_ns)
            queue_size[resource] -= 1
            busy[resource] = True
            arrive_ns[task] = now
            group = group_of[task]
            if group < 0:
                start_ns[task], work_ns = now, duration_ns[task]
                if not is_steady[resource]:
                    end = end_at_rates(
                        now, work_ns, quota_ns, period_ns, phase_ns, period_of, used_ns, change_ns, share, resource
                    )
                elif quota_ns[resource] > 0:
                    end, _ = end_under_quota(
                        now, work_ns, quota_ns[resource], NEVER_NS, period_ns, phase_ns, period_of, used_ns, resource
                    )
                else:
                    end = now + work_ns
                end_ns[task] = end
                num_running = _run(running, num_running, end_ns, task)
                continue
            num_arrived[group] += 1
            first, stop = group_start[group], group_start[group + 1]
            if num_arrived[group] == stop - first:
                held_ns, changes = now, False  # a member short of processor time holds up the others
                for member in group_members[first:stop]:
                    payer, work_ns, end = charged[member], charge_ns[member], now
                    changes = changes or not is_steady[resource_of[member]]
                    if payer >= 0 and not is_steady[payer]:
                        end = end_at_rates(
                            now, work_ns, quota_ns, period_ns, phase_ns, period_of, used_ns, change_ns, share, payer
                        )
                    elif payer >= 0 and quota_ns[payer] > 0:
                        end, _ = end_under_quota(
                            now, work_ns, quota_ns[payer], NEVER_NS, period_ns, phase_ns, period_of, used_ns, payer
                        )
                    held_ns = max(held_ns, end)
                for member in group_members[first:stop]:
                    start_ns[member], work_ns = now, duration_ns[member]
                    end = max(now + work_ns, held_ns)
                    if changes:
                        members = group_members[first:stop]
                        end = max(end, _slowest_end(now, work_ns, members, resource_of, change_ns, share))
                    end_ns[member] = end
                    num_running = _run(running, num_running, end_ns, member)
        if num_running == 0:
            return num_ended
        now = end_ns[running[0]]
        num_touched = 0
        while num_running > 0 and end_ns[running[0]] == now:
            task = _pop(running, 0, num_running, end_ns)
            num_running -= 1
            num_ended += 1
            resource = resource_of[task]
            busy[resource] = False
            num_touched = _touch(touched, is_touched, resource, num_touched)
            for edge in range(successor_start[task], successor_start[task + 1]):
                successor = successors[edge]
                num_waiting_for[successor] -= 1
                if num_waiting_for[successor] == 0:
                    resource = resource_of[successor]
                    ready_ns[successor] = now
                    _push(queue, queue_start[resource], queue_size[resource], ready_ns, successor)
                    queue_size[resource] += 1
                    num_touched = _touch(touched, is_touched, resource, num_touched)


@njit(cache=True, nogil=True)
def play_replicas(tables, work, duration_ns, phase_ns, end_ns):
    """Fills `end_ns` and returns the first replica that cannot end, or the number of replicas.

    `end_ns` [R, K]: when the last of each of K equal runs of tasks has ended. `phase_ns` [R, resources] is written to
    `tables.phase_ns`, replica after replica.
    """
    num_replicas, num_tasks = duration_ns.shape
    size = num_tasks // end_ns.shape[1]
    for replica in range(num_replicas):
        tables.phase_ns[:] = phase_ns[replica]
        if play_once(tables, work, duration_ns[replica]) < num_tasks:
            return replica
        for part in range(end_ns.shape[1]):
            end_ns[replica, part] = work.end_ns[part * size : (part + 1) * size].max() if size else 0
    return num_replicas
