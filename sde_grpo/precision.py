"""float64 is required: a variance of 1e-9 beside one of 1 does not survive single precision."""

from __future__ import annotations

from sde_grpo.errors import InputError


def require_float64() -> None:
    """Raise :class:`InputError` unless JAX computes in float64.

    Importing ``sde_grpo`` changes no JAX flag, so a script switches it on itself; the command line does
    so for its user.
    """
    import jax

    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise InputError(
            "JAX computes in float32 here, and the likelihood needs float64. "
            'Add `import jax; jax.config.update("jax_enable_x64", True)` before the first computation.'
        )
