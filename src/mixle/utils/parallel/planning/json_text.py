"""Plain objects as JSON text and files."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

from mixle._json import parsed

__all__ = ["JsonFile", "JsonText", "write_text"]


class JsonText:
    """What is written as `to_dict` says and read as `from_dict` does."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""

    @classmethod
    @abstractmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build an object from `to_dict` output."""

    def to_json(self, **kwargs: Any) -> str:
        """Return `to_dict` as JSON text.

        Parameters
        ----------
        **kwargs : Any
            Passed to ``json.dumps``.
        """
        import json

        return json.dumps(self.to_dict(), **kwargs)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Build an object from JSON text made by `to_json`; SerializationError for what is none."""
        return cls.from_dict(parsed(text))


class JsonFile(JsonText):
    """What is kept in a file as well."""

    def save(self, path: Any, **kwargs: Any) -> None:
        """Write `to_json` to a file; parent folders are made, and a reader never sees half of it."""
        write_text(path, self.to_json(**kwargs))


def write_text(path: Any, text: str) -> None:
    """Write `text` to `path` through a file beside it, so that a reader never sees half of it."""
    import os
    import tempfile

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")  # a device or a pipe is never replaced
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
