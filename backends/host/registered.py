"""Helpers of a file whose functions are operators of torch, as text."""

HELPERS = {
    "_cast": '''
def _cast(*tensors):
    """Real tensors, but for float64, in the type of torch.autocast where that is on."""
    device = next((x.device.type for x in tensors if isinstance(x, torch.Tensor)), "cpu")
    if device == "meta" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    real = [isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64 for x in tensors]
    return tuple(x.to(dtype) if cast else x for x, cast in zip(tensors, real))
''',
    "_asked": '''
def _asked(*tensors):
    """Whether a gradient may be asked of what these go into."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
''',
    "_own": '''
def _own(given, made):
    """Results of an operator in memory of their own, in the order of their axes: no view of an input or of each other."""
    taken, out = {x.untyped_storage().data_ptr() for x in given}, []
    for x in made:
        x = x.contiguous()
        if x.untyped_storage().data_ptr() in taken:
            x = x.clone()
        taken.add(x.untyped_storage().data_ptr())
        out.append(x)
    return tuple(out)
''',
    "_wanted": '''
def _wanted(ctx, *gradients):
    """Those that are asked for."""
    return tuple(x if needed else None for x, needed in zip(gradients, ctx.needs_input_grad))
''',
    "_filled": '''
def _filled(cotangent, like):
    """The cotangent of a result; of one that nothing was computed from it is zero."""
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device) if cotangent is None else cotangent
''',
    "_operator": '''
def _operator(name, schema, function, shapes, save=None, derive=None):
    """An operator of torch: `function` on tensors, `shapes` where they have no elements, its gradient if it has one."""
    _library.define(name + schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"einc::{name}", shapes, lib=_library)
    torch.library.register_autograd(f"einc::{name}", derive or _once, setup_context=save, lib=_library)
    operator = getattr(torch.ops.einc, name).default
    for device in ("cpu", "cuda"):
        _library.impl(name, _uncast(device, operator), f"Autocast{device.upper()}")
    return operator
''',
    "_uncast": '''
def _uncast(device, operator):
    """The operator where torch.autocast is on: it has no effect inside."""
    def apart(*values):
        with torch.autocast(device, enabled=False):
            return operator(*values)
    return apart
''',
    "_once": '''
def _once(ctx, *cotangents):
    raise RuntimeError("gradients of gradients are not derived")
''',
    "_constant": '''
def _constant(ctx, inputs, output):
    """Results that do not depend on what a gradient is asked of."""
    ctx.mark_non_differentiable(*((output,) if isinstance(output, torch.Tensor) else output))
''',
    "_free": '''
def _free(name, ending=""):
    """The name, with a number where this text has been loaded before: then there is an operator of that name and ending."""
    found, n = name, 1
    while hasattr(torch.ops.einc, found + ending):
        n += 1
        found = f"{name}_{n}"
    return found
''',
}  # fmt: skip
