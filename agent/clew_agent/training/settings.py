"""Hyperparameters that exercises share, ready to be put together into an exercise's own ``Settings``.

An exercise takes the fields with their words and limits and states the course's value::

    class Settings(BatchSettings, frozen=True, kw_only=True):
        optimizer: OptimizerName = "sgd"
        learning_rate: LearningRate = 0.5
"""

from __future__ import annotations

from typing import Annotated

from clew_shared.params import SELDOM, Choice, Condition, Knob, Params

OPTIMIZERS = (
    Choice("sgd", "SGD"),
    Choice("momentum", "Momentum"),
    Choice("nesterov", "Nesterov"),
    Choice("adagrad", "Adagrad"),
    Choice("adadelta", "Adadelta"),
    Choice("rmsprop", "RMSprop"),
    Choice("adam", "Adam"),
    Choice("adamw", "AdamW"),
    Choice("nadam", "Nadam"),
    Choice("ftrl", "Ftrl"),
    Choice("lion", "Lion"),
)
SCHEDULES = (
    Choice("constant", "Constant"),
    Choice("step", "Steps down"),
    Choice("exponential", "Exponential decay"),
    Choice("cosine", "Cosine to zero"),
    Choice("warmup", "Warm-up"),
    Choice("warmup-cosine", "Warm-up, then cosine"),
)
ORDERS = (
    Choice("file", "File order"),
    Choice("shuffle", "Shuffled"),
    Choice("balanced", "Balanced classes"),
)

OptimizerName = Annotated[
    str,
    Knob(
        "Optimizer",
        "How a gradient becomes a change of the weights. SGD is plain gradient descent; Nesterov is momentum that "
        "looks ahead.",
        choices=OPTIMIZERS,
    ),
]
LearningRate = Annotated[
    float,
    Knob(
        "Learning rate",
        "The size of each step. You can change it while the run trains.",
        gt=0,
        le=100,
        live=True,
        log=True,
    ),
]
Momentum = Annotated[
    float,
    Knob(
        "Momentum",
        "Share of the last change that is added to the next one.",
        ge=0,
        lt=1,
        shown_when=Condition("optimizer", ("momentum", "nesterov")),
    ),
]
WeightDecay = Annotated[
    float | None,
    Knob(
        "Weight decay",
        "Each step also shrinks every weight by this share, times the learning rate. Empty: the optimizer's own "
        "value, 0.004 for AdamW and none for the others.",
        ge=0,
        le=1,
        log=True,
        group=SELDOM,
    ),
]
ScheduleName = Annotated[
    str, Knob("Schedule", "How the learning rate changes during the run.", SELDOM, choices=SCHEDULES)
]
DecayEvery = Annotated[
    int,
    Knob(
        "Decay every",
        "Number of steps between two changes of the rate. Each change multiplies it by the decay factor.",
        unit="steps",
        ge=1,
        le=10_000_000,
        shown_when=Condition("schedule", ("step", "exponential")),
        group=SELDOM,
    ),
]
DecayFactor = Annotated[
    float,
    Knob(
        "Decay factor",
        "The factor by which the rate is multiplied.",
        gt=0,
        le=1,
        shown_when=Condition("schedule", ("step", "exponential")),
        group=SELDOM,
    ),
]
WarmupSteps = Annotated[
    int,
    Knob(
        "Warm-up",
        "The rate rises evenly over this many steps.",
        unit="steps",
        ge=1,
        le=10_000_000,
        shown_when=Condition("schedule", ("warmup", "warmup-cosine")),
        group=SELDOM,
    ),
]
Steps = Annotated[int, Knob("Steps", "Number of training steps.", ge=1, le=10_000_000, log=True)]
CheckpointEvery = Annotated[
    int | None,
    Knob(
        "Checkpoint every",
        "Number of steps between checkpoints. An interrupted run continues from its last checkpoint. "
        "Empty: only at the end, and when the run is stopped.",
        group=SELDOM,
        unit="steps",
        ge=1,
        le=10_000_000,
    ),
]
BatchSize = Annotated[int, Knob("Batch size", "Number of images in one training step.", ge=1, le=60_000, log=True)]
OrderName = Annotated[str, Knob("Order", "The order in which images are used.", SELDOM, choices=ORDERS)]
EvaluateEvery = Annotated[
    int | None,
    Knob(
        "Evaluate every",
        "Steps between measurements on held-out images. Empty: about twenty times, less often where measuring would"
        " take longer than training, and after every epoch at least.",
        group=SELDOM,
        unit="steps",
        ge=1,
        le=10_000_000,
    ),
]
Patience = Annotated[
    int,
    Knob(
        "Stop early after",
        "End the run when the validation accuracy has not risen for this many evaluations in a row. 0: never.",
        unit="evaluations",
        ge=0,
        le=1000,
        group=SELDOM,
    ),
]
InitialWeights = Annotated[
    str,
    Knob(
        "Initial weights",
        "Their deviation: with n inputs and m units √(2/(n+m)) (Glorot), √(2/n) (He), a quarter of Glorot's"
        " (too small), three times as much (too large), or 0.",
        "Network",
        choices=(
            Choice("glorot", "Glorot"),
            Choice("he", "He"),
            Choice("small", "Too small"),
            Choice("large", "Too large"),
            Choice("zero", "All zero"),
        ),
    ),
]

BatchNormalisation = Annotated[
    bool, Knob("Batch normalisation", "Bring each layer's values to mean 0 and deviation 1.", "Network")
]
L2Penalty = Annotated[
    float,
    Knob(
        "L2 penalty",
        "The loss grows by this number times the sum of all squared weights. 0: none.",
        "Network",
        ge=0,
        le=1,
        log=True,
    ),
]


class TrainingSettings(Params, frozen=True, kw_only=True):
    """An optimizer, its rate and schedule, and the length of the run."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.01
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = None
    schedule: ScheduleName = "constant"
    decay_every: DecayEvery = 500
    decay_factor: DecayFactor = 0.5
    warmup_steps: WarmupSteps = 100
    steps: Steps = 1000
    checkpoint_every: CheckpointEvery = None


class BatchSettings(TrainingSettings, frozen=True, kw_only=True):
    """The same with batches of a data set, and with evaluation on the parts of it that are held out."""

    batch_size: BatchSize = 100
    order: OrderName = "file"
    patience: Patience = 0
    evaluate_every: EvaluateEvery = None
