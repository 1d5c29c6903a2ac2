"""What is said where a result of a function is differentiated that was compiled without its gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from einc.backends.host.runtime.samples import _derived


def _told(name: str) -> str:
    """The message of the error that a backward pass raises where the file has no gradient."""
    return f"`{name}` was compiled without its gradient: compile its spec with grad=True, or einc compile --grad"


class _Underived(torch.autograd.Function):
    """Results as they are: whoever differentiates them is told that they have no gradient, compiled or not."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.clone() for x in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        ctx.name, ctx.places = inputs[0], len(inputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[None, ...]:
        told = _told(ctx.name)
        if not torch.compiler.is_compiling():
            raise RuntimeError(told)
        # A compiled graph has in its second half what depends on these.
        total = torch.stack([x.sum() for x in cotangents if x.is_floating_point()]).sum()
        torch._assert_async((total.isnan() & total.isfinite()).cpu(), told)
        return tuple(None for _ in range(ctx.places))


def _for_samples(function: Callable[..., Any], name: str, values: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """The results of a function of several samples at once, below torch.func.vmap."""
    kinds: list[Any] = []

    def call(*all_: Any) -> Any:
        made = function(*all_[:len(values)], **dict(zip(given, all_[len(values):])))
        kinds.append(type(made))
        return tuple(made) if isinstance(made, tuple) else made

    def derive(ctx: Any, *cotangents: torch.Tensor) -> None:
        raise RuntimeError(_told(name))

    made = _derived(call, None, derive).apply(*values, *given.values())
    return kinds[-1](*made) if isinstance(made, tuple) else made


def _underived(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose results say so if they are differentiated; where nothing asks for that they are untouched,
    and where gradients are off already, nothing turns them off again."""
    bare = getattr(function, "__wrapped__", function)

    @wraps(function)
    def run(*values: Any, **given: Any) -> Any:
        """Calls the function. Raises RuntimeError, which names `grad=True`, below a transform that differentiates."""
        if torch._C._are_functorch_transforms_active() and not torch.compiler.is_compiling():
            below = [x for x in (*values, *given.values()) if isinstance(x, torch.Tensor)]
            if any(map(torch._C._functorch.is_batchedtensor, below)):
                return _for_samples(run, function.__name__, values, given)
        if not torch.is_grad_enabled():
            return bare(*values, **given)
        some = [x for x in (*values, *given.values()) if isinstance(x, torch.Tensor)]
        try:
            made = function(*values, **given)
        except (NotImplementedError, RuntimeError) as error:
            if any(map(torch._C._functorch.is_gradtrackingtensor, some)):
                raise RuntimeError(_told(function.__name__)) from error
            raise
        asking = [x for x in some if x.requires_grad]
        if not asking:
            return made
        several = isinstance(made, tuple)
        parts = made if several else (made,)
        told = _Underived.apply(function.__name__, len(parts), *parts, *asking)
        return type(made)(*told) if several else told[0]
    return run
