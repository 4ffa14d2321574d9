"""Updates of the fits of a search, told with what each of them fits."""

from __future__ import annotations

from mixle.inference.live import FitStatus, Sink

__all__ = ["Named"]


class Named:
    """Updates of one fit of a search, with its number of components, to where those of the search go."""

    def __init__(self, sink: Sink, components: int) -> None:
        self.sink, self.components, self.period = sink, components, sink.period

    def show(self, status: FitStatus) -> None:
        """Show an update."""
        self.sink.show(status._replace(components=self.components))

    def clear(self) -> None:
        """Make room for something else."""
        self.sink.clear()

    def end(self, status: FitStatus | None) -> None:
        """Show the last update, if there was any."""
        self.sink.end(None if status is None else status._replace(components=self.components))
