"""JSON as text, read with words for what is none."""

from __future__ import annotations

from typing import Any

from mixle.errors import SerializationError

__all__ = ["parsed"]


def parsed(text: Any) -> Any:
    """Return what JSON text holds.

    Raises
    ------
    SerializationError
        For what is no text, no JSON, or nested so deep that it cannot be read.

    Examples
    --------
    >>> parsed('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise SerializationError("the text is nested too deep to be read; pass what to_json returned") from None
    except (TypeError, ValueError) as error:
        raise SerializationError(f"the text is no JSON ({error}); pass what to_json returned") from error
