"""The same steps in PyTorch, eagerly, as its tutorials write them; ``tuned``: fused Adam and channels last."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.measure import Timing
from tests.bench.work import Work

torch: Any = importlib.import_module("torch")
nn: Any = importlib.import_module("torch.nn")
Round = Callable[[], Timing]


def torch_round(exercise: str, work: Work, tuned: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    if exercise == "linear-regression":
        return _linear(work)
    return _cnn(work, tuned) if exercise == "cnn" else _softmax(work)


def _linear(work: Work) -> Round:
    x, y = torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.0, -1, -2, -3])

    def run() -> Timing:
        weights = [torch.tensor([value], requires_grad=True) for value in (0.3, -0.3)]
        optimizer = torch.optim.SGD(weights, lr=0.01)
        begin = time.perf_counter()
        for _ in range(work.steps):
            optimizer.zero_grad()
            loss = ((weights[0] * x + weights[1] - y) ** 2).sum()
            loss.backward()
            optimizer.step()
        seconds = time.perf_counter() - begin
        return Timing(work.steps, seconds, float(((weights[0] * x + weights[1] - y) ** 2).sum()))

    return run


def _batches(work: Work, x: Any, y: Any) -> Callable[[int], tuple[Any, Any]]:
    def batch(step: int) -> tuple[Any, Any]:
        first = step * work.batch_size % len(work.x)
        return x[first : first + work.batch_size], y[first : first + work.batch_size]

    return batch


def _trained(work: Work, model: Any, optimizer: Any, batch: Callable[[int], tuple[Any, Any]]) -> float:
    begin = time.perf_counter()
    for step in range(work.steps):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return time.perf_counter() - begin


def _accuracy(work: Work, model: Any, test_x: Any) -> float:
    model.eval()
    with torch.no_grad():
        right = model(test_x).argmax(1).numpy() == np.argmax(work.test_one_hot, 1)
    return float(right.mean())


def _softmax(work: Work) -> Round:
    x, y = torch.tensor(work.x), torch.tensor(np.argmax(work.one_hot, 1))

    def run() -> Timing:
        model = nn.Linear(784, 10)
        for weight in model.parameters():
            nn.init.zeros_(weight)
        seconds = _trained(work, model, torch.optim.SGD(model.parameters(), lr=0.5), _batches(work, x, y))
        return Timing(work.steps, seconds, _accuracy(work, model, torch.tensor(work.test_x)))

    return run


def _cnn(work: Work, tuned: bool) -> Round:
    layout = torch.channels_last if tuned else torch.contiguous_format
    x = torch.tensor(work.x).reshape(-1, 1, 28, 28).contiguous(memory_format=layout)
    test_x = torch.tensor(work.test_x).reshape(-1, 1, 28, 28).contiguous(memory_format=layout)
    y = torch.tensor(np.argmax(work.one_hot, 1))

    def run() -> Timing:
        model = _network().to(memory_format=layout)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=tuned)
        seconds = _trained(work, model, optimizer, _batches(work, x, y))
        return Timing(work.steps, seconds, _accuracy(work, model, test_x))

    return run


def _network() -> Any:
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 10),
    )  # fmt: skip
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.trunc_normal_(weight, std=0.1, a=-0.2, b=0.2)
        else:
            nn.init.constant_(weight, 0.1)
    return model
