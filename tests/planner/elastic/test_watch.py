"""What a loss has cost is told when training goes on."""

from gnnplan.planner.elastic.watch import Watch


def epoch(number):
    """An event of one."""
    return {"event": "epoch", "epoch": number, "epochs": 100}


def test_epochs_and_seconds_from_the_checkpoint_on_are_lost():
    """Those up to it are kept; after a second loss only what came since the first counts."""
    now, told = [100.0], []
    watch = Watch(told.append, clock=lambda: now[0])
    for number, at_s in ((4, 105.0), (9, 110.0), (14, 116.0)):
        now[0] = at_s
        watch(epoch(number))
    watch.lose("lost b", 10)  # reached at 110 s
    now[0] = 130.0
    watch(epoch(10))
    restart = next(event for event in told if event["event"] == "restart")
    assert restart == {
        "event": "restart",
        "words": "lost b; at least 5 epochs are trained again, 20.0 s were lost",
        "lost_epochs": 5,
        "lost_s": 20.0,
    }
    assert told[-1] == epoch(10)
    watch(epoch(11))
    assert sum(event["event"] == "restart" for event in told) == 1
    watch.lose("lost c", 11)
    now[0] = 131.0
    watch(epoch(12))
    assert [event["lost_epochs"] for event in told if event["event"] == "restart"] == [5, 1]


def test_a_checkpoint_behind_the_last_event_counts_from_that():
    """Events come a few times a second, so the epoch of the checkpoint may not have been told."""
    now, told = [0.0], []
    watch = Watch(told.append, clock=lambda: now[0])
    now[0] = 24.0
    watch(epoch(8))
    watch.lose("lost b", 10)
    now[0] = 81.0
    watch(epoch(10))
    assert (told[1]["lost_epochs"], told[1]["lost_s"]) == (0, 57.0)


def test_without_a_checkpoint_all_is_lost():
    """From the start of the run."""
    now, told = [0.0], []
    watch = Watch(told.append, clock=lambda: now[0])
    assert not watch.has_checkpoint
    watch({"event": "checkpoint", "epoch": 3, "fault": "no room"})
    assert not watch.has_checkpoint
    now[0] = 7.0
    watch(epoch(6))
    watch.lose("lost a", 0)
    now[0] = 9.0
    watch(epoch(0))
    assert (told[-2]["lost_epochs"], told[-2]["lost_s"]) == (7, 9.0)
    watch({"event": "checkpoint", "epoch": 8, "fault": ""})
    assert watch.has_checkpoint
