"""Documented homes of helpers; `mixle.utils.parallel` holds the handles."""


def __getattr__(name: str) -> object:
    if name not in {"parallel", "vector"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    __import__(f"{__name__}.{name}")
    return globals()[name]
