"""How an emitted file with gradients makes operators of torch of its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from einc.backends.host.runtime.samples import _backwards, _transformed

if TYPE_CHECKING:  # an emitted file makes it after its functions
    _library = torch.library.Library("einc", "FRAGMENT")


def _cast(*tensors: Any) -> tuple[Any, ...]:
    """Real tensors, but for float64, in the type of torch.autocast where that is on. Refuses those of which derivatives
    are asked that are not derived."""
    _reverse_only(tensors)
    device = next((x.device.type for x in tensors if isinstance(x, torch.Tensor)), "cpu")
    if device == "meta" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    real = [isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 for x in tensors]
    return tuple(x.to(dtype) if cast else x for x, cast in zip(tensors, real))


def _reverse_only(tensors: Sequence[Any]) -> None:
    """Refuses tensors of which forward derivatives are asked, which torch would take for 0."""
    if torch.compiler.is_compiling():
        return
    for x in tensors:
        if isinstance(x, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(x).tangent is not None:
            _backwards()


def _asked(*tensors: torch.Tensor) -> bool:
    """Whether a gradient may be asked of what these go into: below a transform of torch.func no tensor tells."""
    return torch.is_grad_enabled() and (torch._C._are_functorch_transforms_active()
                                        or any(x.requires_grad for x in tensors))


def _own(given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Results of an operator in memory of their own, in the order of their axes: no view
    of an input or of each other."""
    taken, out = {x.untyped_storage().data_ptr() for x in given}, []
    for x in made:
        x = x.contiguous()
        if x.untyped_storage().data_ptr() in taken:
            x = x.clone()
        taken.add(x.untyped_storage().data_ptr())
        out.append(x)
    return tuple(out)


def _wanted(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The gradients that autograd asks for; None in place of each other one."""
    return tuple(x if needed else None for x, needed in zip(gradients, ctx.needs_input_grad))


def _filled(
    cotangent: torch.Tensor | None, like: tuple[torch.Size, torch.dtype, torch.device]
) -> torch.Tensor:
    """The cotangent of a result; of one that nothing was computed from it is zero."""
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device) if cotangent is None else cotangent


def _operator(
    name: str,
    schema: str,
    function: Callable[..., Any],
    shapes: Callable[..., Any],
    save: Callable[..., None] | None = None,
    derive: Callable[..., Any] | None = None,
) -> Any:
    """An operator of torch: `function` on tensors, `shapes` where they have no elements, its gradient if it has one."""
    _library.define(name + schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"einc::{name}", shapes, lib=_library)
    torch.library.register_autograd(f"einc::{name}", derive or _once, setup_context=save, lib=_library)
    operator = getattr(torch.ops.einc, name).default
    _library.impl(name, _transformed(operator, save, derive or _once), "FuncTorchDynamicLayerFrontMode")
    for device in ("cpu", "cuda"):
        _library.impl(name, _uncast(device, operator), f"Autocast{device.upper()}")
    return operator


def _uncast(device: str, operator: Callable[..., Any]) -> Any:
    """The operator where torch.autocast is on: it has no effect inside."""
    def apart(*values: Any) -> Any:
        with torch.autocast(device, enabled=False):
            return operator(*values)
    return apart


def _once(ctx: Any, *cotangents: torch.Tensor) -> None:
    raise RuntimeError("gradients of gradients are not derived")


def _constant(
    ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor | tuple[torch.Tensor, ...]
) -> None:
    """Results that do not depend on what a gradient is asked of."""
    ctx.mark_non_differentiable(*((output,) if isinstance(output, torch.Tensor) else output))


def _free(name: str, ending: str = "") -> str:
    """The name, with a number where this text has been loaded before: then there is an
    operator of that name and ending."""
    found, n = name, 1
    while hasattr(torch.ops.einc, found + ending):
        n += 1
        found = f"{name}_{n}"
    return found
