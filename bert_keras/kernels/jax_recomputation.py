"""Sums that XLA on a CPU computes once, and functions that it computes again for the gradient.

XLA on a CPU removes its barriers before it looks for equal operations and before it orders them. So
it takes a second computation, as `jax.checkpoint` asks for, for the first one. Here the operands
are divided by a number that is always one, which XLA does not know; see decisions 163 and 178.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp
from jax.core import eval_jaxpr


def is_single_cpu() -> bool:
    """Return whether JAX computes on one CPU device, so that no batch is split between devices."""
    devices = jax.devices()
    return len(devices) == 1 and devices[0].platform == "cpu"


def computed_once(x: Any) -> Any:
    """Return `x`; see `kernels.computed_once`."""
    return x / _one_after(lax.stop_gradient(x)).astype(x.dtype) if is_single_cpu() else x


def _one_after(x: Any) -> Any:
    """Return 1, which XLA does not know before it has computed `x`, floats of any shape."""
    if 0 in x.shape:
        return jnp.ones((), "int32")
    first = x[(0,) * x.ndim]
    return jnp.where(jnp.isnan(first) & (first == 0), 2, 1)  # the condition is never true


# === Functions that are computed again ===


def recomputed(function: Callable[..., Any]) -> Callable[..., Any]:
    """See `kernels.recomputed`."""
    if not is_single_cpu():
        return jax.checkpoint(function)

    def call(*inputs: Any) -> Any:
        """Return the output of `function`. The variables that it reads become inputs too.

        `jax.closure_convert` does this as well, but its cache keeps the function, and so the model.
        """
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*inputs)

        def with_variables(*given: Any) -> Any:
            """Return the output of `function` for inputs and variables."""
            values, variables = given[: len(inputs)], given[len(inputs) :]
            outputs = eval_jaxpr(program.jaxpr, variables, *values)
            return jax.tree.unflatten(jax.tree.structure(shapes), outputs)

        return _again(with_variables, *inputs, *program.consts)

    return call


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _again(function: Callable[..., Any], *inputs: Any) -> Any:
    """Return what a function from arrays returns: a tree of arrays."""
    return function(*inputs)


def _again_forward(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """Return what the function returns, and the inputs for the gradient."""
    return function(*inputs), inputs


def _again_backward(function: Callable[..., Any], inputs: Any, gradients: Any) -> Any:
    """Return the gradients of the inputs. Nothing is computed again before a gradient is known."""
    one = _one_after(jax.tree.leaves(gradients)[0])
    after = [x / one.astype(x.dtype) if jnp.issubdtype(x.dtype, jnp.inexact) else x for x in inputs]
    return jax.vjp(function, *after)[1](gradients)


_again.defvjp(_again_forward, _again_backward)


# === A few rows at a time ===


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def by_rows(function: Callable[..., Any], size: int, arrays: Any) -> Any:
    """Return the outputs of a function, which the gradient computes again.

    Args:
        function: from the arrays of one row to an array.
        size: number of rows at a time; at most all.
        arrays: a tree of arrays, [rows, ...] each.
    """
    return _filled(jax.vmap(function), size, arrays, jax.tree.leaves(arrays)[0])


def _by_rows_forward(function: Callable[..., Any], size: int, arrays: Any) -> tuple[Any, Any]:
    """Return the outputs, and the arrays for the gradient."""
    return by_rows(function, size, arrays), arrays


def _by_rows_backward(function: Callable[..., Any], size: int, arrays: Any, gradient: Any) -> Any:
    """Return the gradients of the arrays."""

    def gradients(rows: Any) -> Any:
        """Return the gradients of the arrays of `size` rows."""
        arrays, gradient = rows
        return jax.vjp(jax.vmap(function), arrays)[1](gradient)[0]

    return (_filled(gradients, size, (arrays, gradient), gradient),)


by_rows.defvjp(_by_rows_forward, _by_rows_backward)


def _filled(function: Callable[..., Any], size: int, arrays: Any, after: Any) -> Any:
    """Return the outputs of a function for `size` rows at a time, as one tree of arrays.

    `lax.map` would put the outputs into zeros, which XLA may write long before they are needed.
    Here they wait for `after`, [rows, ...]. The last chunk may repeat some rows of the one before.
    """
    rows, zero = len(after), _one_after(after) - 1
    empty = jax.tree.map(
        lambda x: jnp.full((rows, *x.shape[1:]), zero, x.dtype), jax.eval_shape(function, arrays)
    )

    def fill(chunk: Any, filled: Any) -> Any:
        """Return the outputs with those of one more chunk."""
        start = jnp.minimum(chunk * size, rows - size)
        outputs = function(jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, start, size), arrays))
        return jax.tree.map(
            lambda x, y: lax.dynamic_update_slice_in_dim(x, y, start, 0), filled, outputs
        )

    return lax.fori_loop(0, -(-rows // size), fill, empty)


# === A batch in parts ===


def by_parts(function: Callable[..., Any], arrays: Any) -> Any:
    """See `row_parts._by_parts`. One program computes the parts, of any number."""
    numbers = jnp.arange(len(arrays[0]))
    program, shapes = jax.make_jaxpr(function, return_shape=True)(
        numbers[0], *(x[0] for x in arrays)
    )

    def of_variables(variables: Any, part: Any) -> list[Any]:
        """Return the outputs of one part, with the variables as inputs."""
        return eval_jaxpr(program.jaxpr, variables, *part)

    outputs: Any = _parts(of_variables, program.consts, (numbers, *arrays))
    return jax.tree.unflatten(jax.tree.structure(shapes), outputs)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _parts(function: Callable[..., Any], variables: Any, parts: Any) -> Any:
    """Return the outputs of a function of variables and a part, for one part after the other."""
    return lax.map(partial(function, variables), parts)


def _parts_forward(function: Callable[..., Any], variables: Any, parts: Any) -> tuple[Any, Any]:
    """Return the outputs, and the inputs for the gradient."""
    return _parts(function, variables, parts), (variables, parts)


def _parts_backward(function: Callable[..., Any], inputs: Any, gradients: Any) -> Any:
    """Return the gradients of the variables, summed over the parts in float32."""
    variables, parts = inputs
    places = [place for place, x in enumerate(variables) if jnp.issubdtype(x.dtype, jnp.inexact)]
    floats = [variables[place] for place in places]

    def of_floats(part: Any, *values: Any) -> Any:
        """Return the outputs of one part as a function of the variables that are floats."""
        given = list(variables)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        return function(given, part)

    def add(sums: Any, part_and_gradient: Any) -> tuple[Any, None]:
        """Add the gradients of one part."""
        part, gradient = part_and_gradient
        found = jax.vjp(partial(of_floats, part), *floats)[1](gradient)
        return [total + x.astype(total.dtype) for total, x in zip(sums, found, strict=True)], None

    zeros = [jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)) for x in floats]
    sums, _ = lax.scan(add, zeros, (parts, gradients))
    of_variables: list[Any] = [None for _ in variables]  # integers have no gradient
    for place, x, total in zip(places, floats, sums, strict=True):
        of_variables[place] = total.astype(x.dtype)
    return of_variables, None


_parts.defvjp(_parts_forward, _parts_backward)
