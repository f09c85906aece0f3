"""Clusters side by side: in the order that the job asks for, and which of them cannot be told apart."""

import io

import pytest
from rich.console import Console

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.interval.interval import Interval
from gnnplan.planner.interval.ranking import are_apart
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.money import Choice
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.report.choices import choice_facts, choices_table
from gnnplan.planner.search import make_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather

GRAPH = SbmGraph(source="sbm", num_nodes=3000, average_degree=20, num_classes=3, num_features=64)
PRICES = {"h100-sxm": 30.0, "a100-80gb": 2.0, "gtx-1650": 1.9}


def shown(minimize):
    """The table of one device each, and the choices in it."""
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=64), objective=ObjectiveSpec(minimize=minimize))
    graph, choices = generate_sbm(GRAPH), []
    for device, price in PRICES.items():
        host = HostSpec(name="h", devices=(DeviceSpec(catalog=device),), price_per_hour=price)
        choices.append(Choice(device, make_plan(job, Cluster(hosts=(host,)), graph)[0]))
    return table_of(choices), choices


def table_of(choices):
    """What a wide terminal shows."""
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(choices_table(choices))
    return console.export_text()


@pytest.mark.parametrize("minimize", ["epoch", "money"])
def test_the_order_is_that_of_the_objective(minimize):
    """Fastest or cheapest first, as the heading says."""
    text, choices = shown(minimize)
    predictions = {each.name: each.plan.prediction for each in choices}
    found = sorted(PRICES, key=text.index)
    if minimize == "money":
        assert "cheapest first" in text
        assert found == sorted(PRICES, key=lambda name: predictions[name].objective.dollars)
        assert found[0] != "h100-sxm"
    else:
        assert "fastest first" in text
        assert found == sorted(PRICES, key=lambda name: predictions[name].expected_epoch_s)


def test_what_cannot_be_told_apart_is_said():
    """Of figures that nobody measured only large differences are sure; of measured ones smaller ones are."""
    _, choices = shown("epoch")
    assert "predictions cannot tell whether h100-sxm is faster than a100-80gb" in table_of(choices)
    sure = [Choice(each.name, with_interval(each.plan, guessed_share=0.0)) for each in choices]
    epochs = {each.name: each.plan.prediction.interval for each in sure}
    assert are_apart(epochs["h100-sxm"], epochs["gtx-1650"])
    assert "gtx-1650" not in table_of(sure).partition("cannot tell")[2]


def with_interval(plan, guessed_share):
    """The plan, of whose epoch so much is guessed."""
    interval = Interval.around(plan.prediction.expected_epoch_s, "profiled", 0.0, guessed_share)
    return plan.model_copy(update={"prediction": plan.prediction.model_copy(update={"interval": interval})})


def test_under_weather_slow_epochs_are_those_of_the_weather():
    """They were those of fair weather, beside a mean that is not."""
    training = TrainingSpec(epochs=50, weather=SleepWeather(sleep_s=2.0))
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=64), training=training)
    host = HostSpec(name="h", devices=(DeviceSpec(catalog="t4"),))
    choice = Choice("t4", make_plan(job, Cluster(hosts=(host,)), generate_sbm(GRAPH))[0])
    facts, weather = choice_facts(choice), choice.plan.prediction.weather
    assert facts["epoch_p95_s"] == weather.p95_epoch_s > choice.plan.prediction.fluctuating.p95_s
