"""The same steps in PyTorch, eagerly, as its tutorials write them; ``tuned``: fused Adam and channels last."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.work import Round, Work

torch: Any = importlib.import_module("torch")
nn: Any = importlib.import_module("torch.nn")


def torch_round(exercise: str, work: Work, tuned: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    if exercise == "linear-regression":
        return _linear(work)
    return _cnn(work, tuned) if exercise == "cnn" else _softmax(work)


def _linear(work: Work) -> Round:
    x, y = torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.0, -1, -2, -3])

    def fresh() -> tuple[Any, Any]:
        weights = [torch.tensor([value], requires_grad=True) for value in (0.3, -0.3)]
        return weights, torch.optim.SGD(weights, lr=0.01)

    def loss(weights: Any) -> Any:
        return ((weights[0] * x + weights[1] - y) ** 2).sum()

    def train(state: tuple[Any, Any]) -> Any:
        weights, optimizer = state
        for _ in range(work.steps):
            optimizer.zero_grad()
            loss(weights).backward()
            optimizer.step()
        return weights

    return work.round(fresh, train, lambda weights: float(loss(weights)))


def _images(work: Work, fresh: Callable[[], tuple[Any, Any]], images: Callable[[Any], Any]) -> Round:
    """``fresh`` makes a model and its optimizer."""
    x, test_x, y = images(work.x), images(work.test_x), torch.tensor(np.argmax(work.one_hot, 1))

    def train(state: tuple[Any, Any]) -> Any:
        model, optimizer = state
        for step in range(work.steps):
            first = step * work.batch_size % len(work.x)
            batch = slice(first, first + work.batch_size)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        return model

    def accuracy(model: Any) -> float:
        model.eval()
        with torch.no_grad():
            return work.accuracy(model(test_x).numpy())

    return work.round(fresh, train, accuracy)


def _softmax(work: Work) -> Round:
    def fresh() -> tuple[Any, Any]:
        model = nn.Linear(784, 10)
        for weight in model.parameters():
            nn.init.zeros_(weight)
        return model, torch.optim.SGD(model.parameters(), lr=0.5)

    return _images(work, fresh, torch.tensor)


def _cnn(work: Work, tuned: bool) -> Round:
    layout = torch.channels_last if tuned else torch.contiguous_format

    def fresh() -> tuple[Any, Any]:
        model = _network().to(memory_format=layout)
        return model, torch.optim.Adam(model.parameters(), lr=1e-4, fused=tuned)

    return _images(work, fresh, lambda x: torch.tensor(x).reshape(-1, 1, 28, 28).contiguous(memory_format=layout))


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
