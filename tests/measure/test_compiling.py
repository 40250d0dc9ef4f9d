"""Compiling shape after shape: PyTorch's limits are raised where a release has them, and reaching them is an error."""

import pytest
import torch
import torch._dynamo.config as config

from lab.measure import compiling


@pytest.fixture(autouse=True)
def _as_before():
    names = [name for pair, _ in compiling.SETTINGS for name in pair if hasattr(config, name)]
    before = {name: getattr(config, name) for name in names}
    yield
    for name, value in before.items():
        setattr(config, name, value)
    torch._dynamo.reset()


def test_no_shape_falls_back_to_the_function_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    traced = []

    def backend(graph, inputs):
        traced.append(tuple(inputs[0].shape))
        return graph.forward

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **more: real(function, backend=backend, **more))
    doubled = compiling.compiled(lambda x: x * 2)
    for size in range(2, 14):  # PyTorch's own limit is 8
        doubled(torch.ones(size))
    assert traced == [(size,) for size in range(2, 14)]


def test_beyond_the_limit_a_call_is_an_error_and_not_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(
        compiling,
        "SETTINGS",
        tuple((names, value if isinstance(value, bool) else 2) for names, value in compiling.SETTINGS),
    )
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **more: real(function, backend="eager", **more))
    doubled = compiling.compiled(lambda x: x * 3)
    sizes = [torch.ones(size) for size in range(2, 9)]
    with pytest.raises(Exception, match="limit"):
        list(map(doubled, sizes))
