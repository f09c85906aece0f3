"""Who is left after losses: nobody that was just lost, and who was lost before where its host answers again."""

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.elastic.left import Left, in_words

HOSTS = Cluster(
    schema_version=1,
    hosts=tuple(HostSpec(name=name, devices=(DeviceSpec(catalog="t4", count=2),)) for name in "ab"),
)


def where(placement):
    """Hosts and devices."""
    return [(place.host, place.device_index) for place in placement.workers]


def test_who_was_lost_sits_out_once_and_comes_back_where_its_host_answers():
    """Only at the next loss, for nobody is asked meanwhile."""
    placement, answering = resolve(HOSTS), set()
    left = Left(placement, lambda host: host in answering)
    a0, a1, b0, b1 = placement.workers
    assert where(left.without([b1])) == [("a", 0), ("a", 1), ("b", 0)]
    assert where(left.without([a0])) == [("a", 1), ("b", 0)]
    answering.add("b")
    assert where(left.without([a1])) == [("b", 0), ("b", 1)]
    answering.clear()
    assert left.without([b0, b1]) is None
    answering.add("a")
    assert where(left.without([])) == [("a", 0), ("a", 1)]


def test_a_lone_worker_that_answers_begins_again():
    """Where nobody else is left, who was lost is all there is."""
    placement = resolve(HOSTS).of([2])
    assert where(Left(placement, lambda host: True).without(placement.workers)) == [("b", 0)]
    assert Left(placement, lambda host: False).without(placement.workers) is None


def test_workers_in_words():
    """By their hosts."""
    placement = resolve(HOSTS)
    assert in_words(placement.workers) == "4 workers on a and b"
    assert in_words(placement.workers[:1]) == "1 worker on a"
