"""Encoders: of what they are made, and what they read."""

from __future__ import annotations

from typing import Any

from mixle.errors import ContractError
from mixle.stats.refusals import shown

__all__ = ["check_instance", "check_reading", "encoder_of_model", "reading"]


def check_instance(title: str, name: str, value: Any, method: str, example: str) -> None:
    """Refuse what has no such method, and a class in the place of an instance, by TypeError."""
    if isinstance(value, type):
        raise TypeError(f"{title}: {name} is the class {value.__name__}; pass an instance, e.g. {example}")
    if not callable(getattr(value, method, None)):
        raise TypeError(f"{title}: {name} is {shown(value)}, which has no {method}(); pass e.g. {example}")


def encoder_of_model(title: str, model: Any) -> Any:
    """Return the encoder of a model; TypeError for what is none."""
    check_instance(title, "model", model, "dist_to_encoder", "a fitted model")
    return model.dist_to_encoder()


def reading(encoder: Any) -> str | None:
    """Return what an encoder of this library reads, in words; None for a foreign one."""
    if not type(encoder).__module__.startswith("mixle."):
        return None
    leaf = getattr(encoder, "leaf", None)
    if leaf is not None:
        return str(leaf.name)
    parts = [reading(part) for part in (*getattr(encoder, "encoders", ()), *_child(encoder))]
    if None in parts:
        return None
    name = type(encoder).__name__.removesuffix("Encoder").removesuffix("Data")
    return f"{name}({', '.join(str(part) for part in parts)})" if parts else name


def _child(encoder: Any) -> tuple[Any, ...]:
    child = getattr(encoder, "encoder", None)
    return () if child is None else (child,)


def check_reading(encoder: Any, estimator: Any) -> None:
    """Refuse an estimator whose family reads rows otherwise than they were encoded.

    Raises
    ------
    ContractError
        (a ValueError) naming both.
    """
    if encoder is None:
        return
    there, wanted = reading(encoder), reading(estimator.accumulator_factory().make().acc_to_encoder())
    if there is not None and wanted is not None and there != wanted:
        raise ContractError(
            f"these rows were encoded for {there}, the estimator reads {wanted}: call encoded_data(rows, estimator)"
        )
