"""Functions and operators below transforms of torch.func: of several samples at once they take one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _sampled(call: Callable[..., Any], count: int, axes: Sequence[int | None], values: Sequence[Any]) -> Any:
    """The results of a call for each sample, laid together, and the axis along which they lie. Of no sample tensors
    without elements tell the shapes."""
    def one(n: int) -> list[Any]:
        return [x if axis is None else x.select(axis, n) for x, axis in zip(values, axes)]

    def nothing() -> list[Any]:
        return [x.new_empty([m for k, m in enumerate(x.shape) if k != axis], device="meta")
                if isinstance(x, torch.Tensor) else x for x, axis in zip(values, axes)]

    made = [call(*one(n)) for n in range(count)] if count else [call(*nothing())]
    several, device = isinstance(made[0], tuple), next(x.device for x in values if isinstance(x, torch.Tensor))
    rows = zip(*made) if several else [made]
    out = tuple(torch.stack(some) if count else torch.zeros(0, *some[0].shape, dtype=some[0].dtype, device=device)
                for some in rows)
    return (out, (0,) * len(out)) if several else (out[0], 0)


def _transformed(operator: Callable[..., Any], save: Callable[..., None] | None, derive: Callable[..., Any]) -> Any:
    """The call of an operator below transforms of torch.func, with the operator's own gradient."""
    def applied(*values: Any) -> Any:
        """Calls the operator through a function of torch, which has its gradient and takes several samples."""
        if not isinstance(values[0], list):
            return _derived(operator, save, derive).apply(*values)
        count = len(values[0])  # an operator of many tensors has them in a list, which is no argument of a function

        def listed(flat: Sequence[Any]) -> list[Any]:
            return [[*flat[:count]], *flat[count:]]

        def gradients(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            made = derive(_Nested(ctx, listed(ctx.needs_input_grad)), *cotangents)
            first, *rest = made if isinstance(made, tuple) else (made,)
            return (*first, *rest)

        return _derived(lambda *flat: operator(*listed(flat)),
                        None if save is None else lambda ctx, inputs, output: save(ctx, listed(inputs), output),
                        gradients).apply(*values[0], *values[1:])
    return applied


def _derived(call: Callable[..., Any], save: Callable[..., None] | None, derive: Callable[..., Any]) -> Any:
    """A function of torch that is the call, with a gradient, and for several samples."""
    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if save is not None:
            save(ctx, inputs, output)

    def several(info: Any, axes: Sequence[int | None], *values: Any) -> Any:
        return _sampled(call, info.batch_size, axes, values)

    return type("Derived", (torch.autograd.Function,), {
        "forward": staticmethod(call), "setup_context": staticmethod(keep), "backward": staticmethod(derive),
        "vmap": staticmethod(several), "jvp": staticmethod(_backwards)})


def _backwards(*_: Any) -> None:
    """Refuses forward derivatives."""
    raise RuntimeError("gradients are derived backwards, for `backward()` and torch.func.grad: forward derivatives, as "
                       "of torch.func.jvp, are not derived")


class _Nested:
    """What torch knows of a call, with what is needed of its arguments as the call has them."""

    def __init__(self, ctx: Any, needed: list[Any]) -> None:
        self.of, self.needs_input_grad = ctx, needed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)
