"""Weather on emulated hosts: what it changes, that it ends, and that a link's rate is real in both directions."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from emulating import cluster, host, needs_emulation, quota_us, remains

from gnnplan.planner.cluster import Cluster
from gnnplan.planner.emulation import kernel
from gnnplan.planner.emulation.emulate import EmulatedHost, WeatherKeeper, _check_weather, _hosts_of, emulated
from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.profiles.machine import Link

EXAMPLES = Path(__file__).parents[3] / "examples"
LINK = Link(bytes_per_s=12.5e6)  # 100 Mbit/s
HALF_A_SECOND = Weather(schema_version=1, spells=(Spell(host="a", from_s=0, to_s=0.5, cpu=0.5, link=0.5),))


def rates(identity, index):
    """What limits a host's link: as it sends, and as the switch sends to it (None: nothing)."""
    ends = ((f"{identity}-{index}", kernel.INTERFACE), (f"{identity}-switch", f"port{index}"))
    shown = [
        subprocess.run(["tc", "-n", space, "qdisc", "show", "dev", device], capture_output=True, text=True).stdout
        for space, device in ends
    ]
    found = [re.search(r"tbf .*?rate (\S+)", text) for text in shown]
    return [match and match.group(1) for match in found]


@needs_emulation
def test_a_spell_changes_both_ends_of_a_link_and_the_quota_and_is_over_when_it_ends():
    """Of its own host alone."""
    hosts = cluster(host("a", cpu_cores=0.5, link=LINK), host("b", cpu_cores=0.4, link=LINK))
    with emulated(hosts) as (identity, up, _):
        keeper = WeatherKeeper(identity, up, HALF_A_SECOND)
        for at_s, rate, cores in ((0, "50Mbit", 0.25), (0.5, "100Mbit", 0.5)):
            keeper._change(at_s)
            assert rates(identity, 0) == [rate] * 2
            assert rates(identity, 1) == ["100Mbit"] * 2
            assert quota_us(identity, 0) == round(cores * kernel.CPU_PERIOD_US)
            assert quota_us(identity, 1) == round(0.4 * kernel.CPU_PERIOD_US)
        keeper.start()
        keeper.join(60)  # it ends with the last spell
        assert (keeper.is_alive(), keeper.fault) == (False, "")
        assert (rates(identity, 0), quota_us(identity, 0)) == (["100Mbit"] * 2, 0.5 * kernel.CPU_PERIOD_US)
    assert remains(identity) == []


def test_a_keeper_makes_every_change_in_turn(monkeypatch):
    """However late it comes to one; what is not limited stays so."""
    made = []
    monkeypatch.setattr(kernel, "set_cpu", lambda _, index, cores: made.append((index, "cpu", cores)))
    monkeypatch.setattr(kernel, "set_link", lambda _, index, rate, *, change: made.append((index, "link", rate)))
    keeper = WeatherKeeper("e", [EmulatedHost(0, "a", 0.8, 100.0), EmulatedHost(1, "b", None, None)], HALF_A_SECOND)
    keeper.start()
    keeper.join(60)
    unchanged = [(1, "cpu", None), (1, "link", None)]
    assert made == [(0, "cpu", 0.4), (0, "link", 50.0), *unchanged, (0, "cpu", 0.8), (0, "link", 100.0), *unchanged]


def test_a_spell_may_last_for_ever():
    """Longer than a thread can wait; the keeper waits on, and ends when it is told to."""
    for_ever = Weather(schema_version=1, spells=(Spell(host="a", from_s=1e10, to_s=1e300, cpu=0.5),))
    keeper = WeatherKeeper("e", (), for_ever)
    keeper.start()
    keeper.join(0.2)
    assert keeper.is_alive()
    keeper.end()
    assert (keeper.is_alive(), keeper.fault) == (False, "")


NUM_BYTES = 5_000_000
RECEIVE = """
import socket, time
connection, _ = socket.create_server(("", 5)).accept()
received = 0
while got := len(connection.recv(65536)):
    received += got
print(received, time.monotonic())
"""
SEND = f"""
import socket, sys, time
for _ in range(200):
    try:
        connection = socket.create_connection((sys.argv[1], 5))
        break
    except OSError:
        time.sleep(0.05)
print(time.monotonic())
connection.sendall(bytes({NUM_BYTES}))
connection.close()
"""


def seconds_to_send(sender, receiver):
    """Of the bytes from one host to another: from the sender's begin to the receiver's end, by the machine's clock."""
    reading = [*receiver["prefix"], sys.executable, "-c", RECEIVE]
    writing = [*sender["prefix"], sys.executable, "-c", SEND, receiver["address"]]
    receiving = subprocess.Popen(reading, stdout=subprocess.PIPE, text=True)
    try:
        sent = subprocess.run(writing, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        received, end_s = receiving.communicate(timeout=60)[0].split()
    finally:
        receiving.kill()
    assert int(received) == NUM_BYTES
    return float(end_s) - float(sent.stdout)


@needs_emulation
def test_bytes_take_their_time_in_both_directions():
    """A host of 100 Mbit/s sends to one without a limit, and receives from it; noise can only make that slower."""
    with emulated(cluster(host("limited", link=LINK), host("free"))) as (identity, _, environment):
        limited, free = json.loads(Path(environment["GNNPLAN_HOSTS"]).read_text())
        for seconds in (seconds_to_send(limited, free), seconds_to_send(free, limited)):
            assert 0.5 < seconds * LINK.bytes_per_s / NUM_BYTES < 8  # as long, had bits been taken for bytes
    assert remains(identity) == []


def test_the_shipped_weather_fits_the_shipped_cluster(monkeypatch):
    """A user copies the examples, so every spell must change something."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    weather = Weather.load(EXAMPLES / "weather.toml")
    _check_weather(_hosts_of(Cluster.load(EXAMPLES / "emulated.toml")), weather)
    assert {spell.cpu < 1 for spell in weather.spells} == {spell.link < 1 for spell in weather.spells} == {True, False}
