"""What the file of an exercise imports beside TensorFlow: its base, its card, its data and the pieces of networks."""

from __future__ import annotations

from clew_agent.datasets.dataset import DataSet, Rows
from clew_agent.lesson.cards import (
    at_evaluation,
    at_least,
    at_most,
    choices,
    each_step,
    goal,
    lane,
    lines,
    needs,
    number,
    optimizer_race,
    other_than,
    plot,
    preset,
    race,
    share,
    size,
    tiny,
)
from clew_agent.lesson.classifier import ANSWER_PICTURES, answer_pictures, classifier
from clew_agent.lesson.measuring import check_images, descend, devices_in_words, points, row_of_bars
from clew_agent.lesson.recurrent import GATES, STATES, recurrent_cell
from clew_agent.training import random
from clew_agent.training.exercise import Batch, Coder, Exercise, Loss, Measurement, Model, Part, Samples, Setup
from clew_agent.training.images import around_grey, as_images, augment, in_rows, mistakes
from clew_agent.training.judging import (
    ACCURACY,
    CLASSIFICATION_METRICS,
    CLASSIFICATION_PLOTS,
    HELD_OUT_METRICS,
    LOSS,
    TEST_ACCURACY,
    TEST_LOSS,
    VALIDATION_ACCURACY,
    VALIDATION_LOSS,
    answers,
    flags,
    summarize_answers,
    summarize_flags,
)
from clew_agent.training.layers import (
    Activation,
    BatchNorm,
    Dense,
    Layers,
    averages,
    correct,
    cross_entropy,
    dense,
    dense_layers,
    dropout,
    leaky_relu,
    through,
    trained,
    variables_of,
    weights_of,
)
from clew_agent.training.random import StepContext
from clew_agent.training.settings import (
    BatchNormalisation,
    BatchSettings,
    BatchSize,
    EvaluateEvery,
    InitialWeights,
    L2Penalty,
    LearningRate,
    OptimizerName,
    OrderName,
    ScheduleName,
    Steps,
    TrainingSettings,
)
from clew_shared.base.problem import problem
from clew_shared.cards import (
    Bars,
    ByHand,
    ConfusionMatrix,
    Distributions,
    Gallery,
    HistogramPlot,
    ImageGrid,
    MetricSpec,
    Plane,
    PlotSpec,
    Scatter,
    SeriesPlot,
    Surface,
    SurfaceSpec,
)
from clew_shared.journal.events import Evaluation, Event, Log, Schema, Series
from clew_shared.params import SELDOM, Choice, Condition, Knob, Params, read_points
from clew_shared.surface import Grid, make_surface

# fmt: off
__all__ = [
    "ACCURACY", "ANSWER_PICTURES", "CLASSIFICATION_METRICS", "CLASSIFICATION_PLOTS", "GATES", "HELD_OUT_METRICS",
    "LOSS", "SELDOM", "STATES", "TEST_ACCURACY", "TEST_LOSS", "VALIDATION_ACCURACY", "VALIDATION_LOSS", "Activation",
    "Bars", "Batch", "BatchNorm", "BatchNormalisation", "BatchSettings", "BatchSize", "ByHand", "Choice", "Coder",
    "Condition", "ConfusionMatrix", "DataSet", "Dense", "Distributions", "EvaluateEvery", "Evaluation", "Event",
    "Exercise", "Gallery", "Grid", "HistogramPlot", "ImageGrid", "InitialWeights", "Knob", "L2Penalty", "Layers",
    "LearningRate", "Log", "Loss", "Measurement", "MetricSpec", "Model", "OptimizerName", "OrderName", "Params",
    "Part", "Plane", "PlotSpec", "Rows", "Samples", "Scatter", "ScheduleName", "Schema", "Series", "SeriesPlot",
    "Setup", "StepContext", "Steps", "Surface", "SurfaceSpec", "TrainingSettings", "answer_pictures", "answers",
    "around_grey", "as_images", "at_evaluation", "at_least", "at_most", "augment", "averages", "check_images",
    "choices", "classifier", "correct", "cross_entropy", "dense", "dense_layers", "descend", "devices_in_words",
    "dropout", "each_step", "flags", "goal", "in_rows", "lane", "leaky_relu", "lines", "make_surface", "mistakes",
    "needs", "number", "optimizer_race", "other_than", "plot", "points", "preset", "problem", "race", "random",
    "read_points", "recurrent_cell", "row_of_bars", "share", "size", "summarize_answers", "summarize_flags", "through",
    "tiny", "trained", "variables_of", "weights_of",
]
# fmt: on
