"""Softmax on MNIST as a session loop of TensorFlow 1, with the values of the exercise: to read beside the course's
slides, and to run.

``tensorflow.compat.v1`` is TensorFlow 1 inside TensorFlow 2. It needs the file mnist.npz.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from clew_agent.exercises.code.parts import batches, read_data, session_optimizer

DATA = "mnist.npz"
OPTIMIZER = "sgd"  # or "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "ftrl"
LEARNING_RATE = 0.5
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "file"  # or "shuffle"
STEPS = 500
SEED = 1


def main() -> list[float]:
    """First the graph is built, then a session runs parts of it; returns loss and accuracy of the test images."""
    (x_train, y_train), _, (x_test, y_test) = ((x.reshape(len(x), -1), y) for x, y in read_data(DATA))
    pixels = x_train.shape[1]
    with tf.Graph().as_default(), tf.Session() as session:
        # Nothing is computed here: these lines only say what is to be computed.
        x = tf.placeholder(tf.float32, [None, pixels])
        y = tf.placeholder(tf.int64, [None])
        W = tf.get_variable("W", initializer=tf.zeros([pixels, 10]))
        b = tf.get_variable("b", initializer=tf.zeros([10]))
        scores = tf.matmul(x, W) + b
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), y), tf.float32))
        update = session_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM).minimize(loss)

        # Each run of the session computes what is asked for, with a batch in the place of the placeholders.
        session.run(tf.global_variables_initializer())
        feed = batches(x_train, y_train, BATCH_SIZE, ORDER, SEED)
        for step in range(STEPS):
            images, labels = next(feed)
            value, _ = session.run([loss, update], {x: images, y: labels})
            if step % 100 == 0:
                print(f"Step {step}: loss {value:.4f}")
        found = [float(one) for one in session.run([loss, accuracy], {x: x_test, y: y_test})]
    print(f"Test loss {found[0]:.4f}, test accuracy {100 * found[1]:.2f} %")
    return found


if __name__ == "__main__":
    main()
