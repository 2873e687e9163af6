"""The exercise shape carries a GAN: two parts with losses and optimizers of their own, one updated twice a step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.optimizers import Rate, make_optimizer
from clew_agent.training.random import StepContext
from clew_shared.cards import MetricSpec
from clew_shared.params import Knob, Params, build


class GanSettings(Params, frozen=True, kw_only=True):
    """Two rates, both live."""

    generator_rate: Annotated[float, Knob("Generator's rate", gt=0, live=True)] = 0.01
    critic_rate: Annotated[float, Knob("Critic's rate", gt=0, live=True)] = 0.02
    steps: Annotated[int, Knob("Steps", ge=1)] = 300
    batch_size: Annotated[int, Knob("Batch size", ge=1)] = 64


class Gan(Exercise[GanSettings]):
    """The generator shifts noise; the critic tells real samples, which lie around 3, from shifted noise."""

    id = "toy-gan"
    title = "Toy GAN"
    Settings = GanSettings
    jit = True
    metrics = (
        MetricSpec(name="generator_loss", label="Generator"),
        MetricSpec(name="critic_loss", label="Critic"),
        MetricSpec(name="shift", label="Shift"),
        MetricSpec(name="updates", label="Critic's updates so far"),
    )

    def build(self, setup: Setup[GanSettings]) -> Model:
        """Two parts over one set of samples."""
        rng = np.random.default_rng(setup.seed)
        real = (3 + 0.5 * rng.standard_normal(1000)).astype(np.float32)
        shift, slope, height = tf.Variable(0.0), tf.Variable(0.0), tf.Variable(0.0)
        updates = tf.Variable(0.0)

        def critic_score(x: tf.Tensor) -> tf.Tensor:
            return slope * x + height

        def fake(context: StepContext) -> tf.Tensor:
            return shift + 0.5 * context.sample_normal([], "noise")

        def distance(logits: tf.Tensor, label: float) -> tf.Tensor:
            return tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.fill(tf.shape(logits), label), logits=logits)

        def critic_loss(batch: Batch, context: StepContext) -> Loss:
            before = updates.read_value()
            updates.assign_add(1)
            ours = tf.reduce_mean(distance(critic_score(fake(context)), 0.0))
            return Loss(batch.mean(distance(critic_score(batch.x), 1.0)) + ours, {"updates": before})

        def generator_loss(batch: Batch, context: StepContext) -> Loss:
            return Loss(batch.mean(distance(critic_score(fake(context)), 1.0)), {"shift": shift.read_value()})

        critic = make_optimizer("adam", Rate("critic_rate"))
        generator = make_optimizer("rmsprop", Rate("generator_rate"))
        return Model(
            parts=[
                Part("critic", {"slope": slope, "height": height}, critic_loss, critic, repeats=2),
                Part("generator", {"shift": shift}, generator_loss, generator),
            ],
            state={"updates": updates},
            train=Samples(real, np.zeros(1000, np.int32)),
        )


def make_gan(values: dict[str, object] | None = None) -> Engine:
    engine = Engine(Gan(), build(GanSettings, values or {}), seed=4, block_steps=lambda _: 50)
    engine.compile()
    return engine


def run(engine: Engine, until: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.floating]]]:
    pieces = []
    while engine.step < until:
        pieces.append(engine.run_block().values)
    names = [spec.name for spec in engine.course.per_step]
    return dict(zip(names, map(np.concatenate, zip(*pieces, strict=True)), strict=True))


def test_both_parts_are_trained_the_critic_twice_a_step_and_the_generator_finds_the_data() -> None:
    engine = make_gan()
    seen = run(engine, until=300)
    assert seen["shift"][0] == 0
    assert 2 < seen["shift"][-1] < 4
    assert seen["critic_loss"][0] == pytest.approx(2 * math.log(2), rel=1e-5)
    assert seen["generator_loss"].shape == (300,)
    assert seen["updates"].tolist() == [2.0 * step for step in range(300)], "those of the first update"
    assert engine.variables["optimizer/critic/iterations"] == 600
    assert engine.variables["optimizer/generator/iterations"] == 300


def test_each_part_follows_its_own_live_rate() -> None:
    frozen = make_gan({"generator_rate": 1e-30})
    assert run(frozen, until=50)["shift"][-1] < 1e-20
    frozen.course.set_live("generator_rate", 0.05)
    assert run(frozen, until=100)["shift"][-1] > 0.5


def test_a_gan_resumes_exactly(tmp_path: Path) -> None:
    whole, second = make_gan({"steps": 80}), make_gan({"steps": 80})
    whole.run_block()
    whole.save(tmp_path)
    run(whole, until=80)
    second.restore(tmp_path)
    assert second.step == 50
    run(second, until=80)
    assert {name: value.tobytes() for name, value in second.variables.items()} == {
        name: value.tobytes() for name, value in whole.variables.items()
    }
