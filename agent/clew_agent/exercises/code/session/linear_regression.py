"""The line through four points as a session loop of TensorFlow 1, with the values of the exercise: to read beside the
course's slides, and to run.

``tensorflow.compat.v1`` is TensorFlow 1 inside TensorFlow 2.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from clew_agent.exercises.code.parts import session_optimizer

POINTS = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, -1.0, -2.0, -3.0])
OPTIMIZER = "sgd"  # or "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "ftrl"
LEARNING_RATE = 0.01
MOMENTUM = 0.9
STEPS = 1000


def main() -> tuple[float, float]:
    """First the graph is built, then a session runs parts of it; returns W and b."""
    with tf.Graph().as_default(), tf.Session() as session:
        # Nothing is computed here: these lines only say what is to be computed.
        x = tf.placeholder(tf.float64, [None])
        y = tf.placeholder(tf.float64, [None])
        W = tf.get_variable("W", initializer=tf.constant(0.3, tf.float64))
        b = tf.get_variable("b", initializer=tf.constant(-0.3, tf.float64))
        loss = tf.reduce_sum(tf.square(W * x + b - y))
        update = session_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM).minimize(loss)

        # Each run of the session computes what is asked for, with the points in the place of the placeholders.
        session.run(tf.global_variables_initializer())
        points = dict(zip((x, y), POINTS, strict=True))
        for step in range(STEPS):
            value, _ = session.run([loss, update], points)
            if step % 100 == 0:
                print(f"Step {step}: loss {value:.6g}")
        slope, offset = (float(one) for one in session.run([W, b]))
        print(f"W = {slope:.6f}, b = {offset:.6f}, loss {session.run(loss, points):.3g}")
    return slope, offset


if __name__ == "__main__":
    main()
