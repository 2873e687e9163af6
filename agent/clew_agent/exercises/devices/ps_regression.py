"""A line through a thousand points, on a parameter-server cluster. NCSA, TensorFlow on Blue Waters, part two."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from clew_agent.strategies import parameter_server, single
from clew_agent.strategies.cluster_settings import ASYNC, BOUNDED, SYNC
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, Steps
from clew_shared.cards import Goal, MetricSpec, PlotSpec, Preset, Requirement

# A thousand points near the line y = 3 x + 2.
SLOPE, OFFSET, NOISE, POINTS = 3.0, 2.0, 0.1, 1000

CLUSTER = (
    Requirement("strategy", (parameter_server.CARD.id,)),
    Requirement("mode", (ASYNC, SYNC, BOUNDED)),
    Requirement("workers", least=2),
    Requirement("steps", least=200),
)
"""On one device, or by one long step, a line is found without a cluster."""
ASKED = "Which process would you rather lose while a run trains, a worker or the server, and why?"

GUIDE = """\
## See a cluster form, and see who updates what

The task is small on purpose: find W and b of a line. What is new is where they are. A *parameter server* holds W and b.
*Workers* read them, compute a gradient of ten points and send it back. The *coordinator* hands the points out. These
are processes of their own, on one computer or on the nodes of a job.

## What to do

1. Press **Run**. Open the *Cluster* tab and find the coordinator, the two workers and the server, with their hosts and
   ports. Compare them with the slides' lists of hosts: which line of the table below does the work of which line there?
2. Look at the timeline. Which worker made which update? Do they take turns?
3. Slow a worker down while the run trains. What happens to the staleness, and what to the curve?
4. Kill a worker, then the server. Which of the two can you see in the curve?
5. Run again with two servers. Which of W and b is on which of them?

## Then and now

The slides use TensorFlow 1 on Blue Waters, where a script makes the cluster. Here Clew makes it:

```
the slides                              here
aprun -n 8 -N 1: a process on each      the job starts an agent on each node,
node                                    and the agents start the processes
an allgather of the host names          each process says its host and port
lists of ps and worker hosts            TF_CONFIG: {"cluster": {"chief": […],
                                        "ps": […], "worker": […]},
                                        "task": {"type": …, "index": …}}
tf.train.ClusterSpec(…)                 tf.train.ClusterSpec(…), the same
tf.train.Server(…) in each process      tf.distribute.Server(…) in workers and
                                        servers
tf.device(replica_device_setter(…))     ParameterServerStrategy: its scope puts
                                        the variables on the servers
each worker runs its own session        the coordinator hands out batches
```

## What to watch

The *staleness* of an update is how many updates of others came between its reading of W and b and its own. With two
even workers it is 0 or 1.

## Questions

- Which process would you rather lose while a run trains, a worker or the server, and why?

> **Hint: why nothing is lost with the server**
> The coordinator keeps a copy of all variables after each block of steps. When the server is lost, another process
> takes its place, gets that copy, and the block is done again.
"""


class PsRegressionSettings(BatchSettings, frozen=True, kw_only=True):
    """Slow enough to watch."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.02
    batch_size: BatchSize = 10
    steps: Steps = 1000


class PsRegression(Exercise[PsRegressionSettings]):
    """W and b on a server, gradients from workers."""

    id = "ps-regression"
    title = "Regression on a cluster"
    subtitle = "one server, two workers"
    chapter = "Many devices"
    course = "NCSA, TensorFlow on Blue Waters, part two"
    minutes = 20
    summary = "Form a parameter-server cluster, see which process updates what, and what its loss does."
    guide = GUIDE
    Settings = PsRegressionSettings
    revision = 1
    metrics = (
        MetricSpec(name="loss", label="Loss", better="lower"),
        MetricSpec(name="W", label="W"),
        MetricSpec(name="b", label="b"),
    )
    plots = (
        PlotSpec(id="loss", title="Loss", metrics=("loss",), log=True),
        PlotSpec(id="weights", title="W and b", metrics=("W", "b")),
    )
    presets = (
        Preset(name="usual", title="Clew's values", help="Gradient descent, rate 0.02, batches of ten points."),
        Preset(name="tiny", title="Tiny", values={"steps": 60}, help="A few seconds of updates."),
    )
    goals = (
        Goal(
            id="W",
            text="W is 3",
            metric="W",
            op="near",
            value=SLOPE,
            tolerance=0.05,
            detail="Found to two digits.",
            requires=CLUSTER,
            question=ASKED,
        ),
        Goal(
            id="b",
            text="b is 2",
            metric="b",
            op="near",
            value=OFFSET,
            tolerance=0.05,
            detail="Found to two digits.",
            requires=CLUSTER,
            question=ASKED,
        ),
    )
    strategies = (parameter_server.CARD, single.CARD)

    def build(self, setup: Setup[PsRegressionSettings]) -> Model:
        """Both are zero at the start."""
        draw = np.random.default_rng(setup.seed)
        x = draw.uniform(-1, 1, POINTS).astype(np.float32)
        y = (SLOPE * x + OFFSET + NOISE * draw.standard_normal(POINTS)).astype(np.float32)
        W, b = tf.Variable(0.0, name="W"), tf.Variable(0.0, name="b")

        def loss(batch: Batch, _: StepContext) -> Loss:
            slope, offset = tf.identity(W), tf.identity(b)
            error = slope * batch.x + offset - batch.y
            return Loss(batch.mean(tf.square(error)), {"W": slope, "b": offset})

        return Model(parts=[Part("line", {"W": W, "b": b}, loss, setup.optimizer())], train=Samples(x, y))


EXERCISE = PsRegression()
