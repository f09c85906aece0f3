"""Tuned baselines for the graphs that are at hand: what builds each, and how it is trained (Luo et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from benchmarks._models_modules import Tuned
from benchmarks._models_settings import SETTINGS
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec


def photo_gcn(num_features: int, num_classes: int) -> nn.Module:
    """Six layers of width 256."""
    return _built("gcn on amazon-photo", num_features, num_classes)


def photo_gat(num_features: int, num_classes: int) -> nn.Module:
    """Three layers of width 64."""
    return _built("gat on amazon-photo", num_features, num_classes)


def cs_gcn(num_features: int, num_classes: int) -> nn.Module:
    """Two layers of width 512."""
    return _built("gcn on coauthor-cs", num_features, num_classes)


def cs_sage(num_features: int, num_classes: int) -> nn.Module:
    """Two layers of width 512."""
    return _built("sage on coauthor-cs", num_features, num_classes)


def physics_sage(num_features: int, num_classes: int) -> nn.Module:
    """Two layers of width 64, batch norms."""
    return _built("sage on coauthor-physics", num_features, num_classes)


def physics_gat(num_features: int, num_classes: int) -> nn.Module:
    """Two layers of width 256, batch norms."""
    return _built("gat on coauthor-physics", num_features, num_classes)


def squirrel_gcn(num_features: int, num_classes: int) -> nn.Module:
    """Four layers of width 256, batch norms."""
    return _built("gcn on squirrel", num_features, num_classes)


def squirrel_sage(num_features: int, num_classes: int) -> nn.Module:
    """Three layers of width 256, batch norms."""
    return _built("sage on squirrel", num_features, num_classes)


def _built(name: str, num_features: int, num_classes: int) -> nn.Module:
    setting = next(each for each in SETTINGS if each.name == name)
    return Tuned(num_features, num_classes, setting, setting.width)


@dataclass(frozen=True)
class Baseline:
    """One of them: its function here, the graph's file, and the training."""

    build: str
    graph: str
    learning_rate: float
    weight_decay: float

    def job(self, spec: NpzGraph, epochs: int, seed: int) -> Job:
        """What is trained."""
        training = TrainingSpec(
            epochs=epochs, learning_rate=self.learning_rate, weight_decay=self.weight_decay, seed=seed
        )
        model = ModelSpec(kind="module", build=f"{__file__}:{self.build}")
        return Job(schema_version=1, name=f"{self.build}-{seed}", graph=spec, model=model, training=training)


BASELINES = (
    Baseline("photo_gcn", "amazon_photo", 1e-3, 5e-5),
    Baseline("photo_gat", "amazon_photo", 1e-3, 5e-5),
    Baseline("cs_gcn", "coauthor_cs", 1e-3, 5e-4),
    Baseline("cs_sage", "coauthor_cs", 1e-3, 5e-4),
    Baseline("physics_sage", "coauthor_physics", 1e-3, 5e-4),
    Baseline("physics_gat", "coauthor_physics", 1e-3, 5e-4),
    Baseline("squirrel_gcn", "squirrel_filtered", 1e-2, 5e-4),
    Baseline("squirrel_sage", "squirrel_filtered", 1e-2, 5e-4),
)
