"""Recurrent cells: a simple one, a GRU and an LSTM."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

State = tuple[tf.Tensor, ...]
"""What the network reads, and of an LSTM its memory."""
GATES = {"simple": 1, "gru": 3, "lstm": 4}
STATES = {"simple": 1, "gru": 1, "lstm": 2}


def recurrent_cell(
    kind: str, of_state: tf.Variable, keep: float | None = None, offset: tf.Variable | None = None
) -> Callable[[tf.Tensor, State], State]:
    """The cell called ``kind``: from the product of what it sees with its weights, and the state, to the new state.
    ``keep`` is how far open the gate that keeps the state is at first; None: neither open nor closed."""

    def both(seen: tf.Tensor, state: State) -> tf.Tensor:
        found = seen + tf.matmul(state[0], of_state)
        return found if offset is None else found + offset

    def opened(gate: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(gate if keep is None else gate + keep)

    def simple(seen: tf.Tensor, state: State) -> State:
        """Elman (1990)."""
        return (tf.tanh(both(seen, state)),)

    def gru(seen: tf.Tensor, state: State) -> State:
        """Cho et al. (2014), with the reset after the product, as cuDNN has it."""
        new = tf.split(seen if offset is None else seen + offset, 3, 1)
        own = tf.split(tf.matmul(state[0], of_state), 3, 1)
        kept, reset = opened(new[0] + own[0]), tf.sigmoid(new[1] + own[1])
        return (kept * state[0] + (1 - kept) * tf.tanh(new[2] + reset * own[2]),)

    def lstm(seen: tf.Tensor, state: State) -> State:
        """Hochreiter and Schmidhuber (1997) with a forget gate (Gers et al., 2000)."""
        sums = tf.split(both(seen, state), 4, 1)
        memory = opened(sums[0]) * state[1] + tf.sigmoid(sums[1]) * tf.tanh(sums[2])
        return tf.sigmoid(sums[3]) * tf.tanh(memory), memory

    return {"simple": simple, "gru": gru, "lstm": lstm}[kind]
