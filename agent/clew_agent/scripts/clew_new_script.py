"""My script: what is the question that it answers?

## What to do

1. Run it as it is.
2. Change the learning rate, and run it again.

> **Hint: what to watch**
> The loss should fall fast at first, and then slowly.
"""

# What Clew shows of this file. `python` may name another interpreter, such as ~/torch/bin/python.
#
# /// clew
# id = "my-script"
# title = "My script"
# minutes = 5
#
# [params.learning_rate]
# default = 0.1
# gt = 0
# [params.steps]
# default = 200
# ge = 1
#
# [metrics.loss]
# better = "lower"
# [metrics.test_loss]
# better = "lower"
# every_step = false
#
# [presets.tiny]
# steps = 50
#
# [[goals]]
# text = "A test loss below 0.02"
# metric = "test_loss"
# op = "<="
# value = 0.02
# ///

from __future__ import annotations

import random

from clew_agent.scripts import clew_log

run = clew_log.start(learning_rate=0.1, steps=200)
random.seed(run.seed)


def sample() -> tuple[float, float]:
    """A point near the line y = 2x - 1."""
    x = random.uniform(-1, 1)
    return x, 2 * x - 1 + random.gauss(0, 0.1)


test = [sample() for _ in range(100)]
weight, bias = 0.0, 0.0
for step in range(run.steps):
    batch = [sample() for _ in range(32)]
    errors = [weight * x + bias - y for x, y in batch]
    loss = sum(error**2 for error in errors) / len(batch)
    weight -= run.learning_rate * 2 * sum(error * x for error, (x, _) in zip(errors, batch, strict=True)) / len(batch)
    bias -= run.learning_rate * 2 * sum(errors) / len(batch)

    stop = clew_log.log(step, loss=loss)
    if stop or step % 10 == 9 or step == run.steps - 1:
        clew_log.log(step, test_loss=sum((weight * x + bias - y) ** 2 for x, y in test) / len(test))
    if stop:
        break
