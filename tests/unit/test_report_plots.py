"""Plots: each takes and returns an axes, and shows what the records say."""

import subprocess
import sys

import numpy as np
import pytest

from mixle.utils.parallel.em_observability import RankRecord

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib.figure import Figure  # noqa: E402

from mixle.plotting import (  # noqa: E402
    plot_convergence,
    plot_imbalance,
    plot_placement,
    plot_stragglers,
    plot_timeline,
)
from mixle.stats import GaussianEstimator  # noqa: E402
from mixle.utils.parallel.planner import Resources, plan  # noqa: E402

PHASES = {"queue": 0.1, "E-step": 0.5, "wait": 0.2, "M-step": 0.2}
RECORDS = [
    RankRecord(
        r, t, 0.5 if r != 1 or t < 8 else 1.5, bytes_processed=1000 * (r + 1), n_obs=100,
        extra={"phases": PHASES, "log_density": float(t)},
    )
    for t in range(12)
    for r in range(3)
]  # fmt: skip


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.mark.parametrize("plot", [plot_timeline, plot_stragglers, plot_imbalance, plot_convergence])
def test_every_plot_takes_and_returns_an_axes(plot, ax):
    assert plot(RECORDS, ax) is ax
    assert plot(RECORDS, ax=ax) is ax
    ax.figure.savefig(__import__("io").BytesIO())


@pytest.mark.parametrize("plot", [plot_timeline, plot_stragglers, plot_imbalance, plot_convergence])
def test_without_an_axes_a_figure_is_made(plot):
    from matplotlib import pyplot as plt

    try:
        assert plot(RECORDS[:1]).figure.number in plt.get_fignums()
    finally:
        plt.close("all")


@pytest.mark.parametrize("plot", [plot_timeline, plot_stragglers, plot_imbalance, plot_convergence])
def test_nothing_to_draw_is_said(plot, ax):
    with pytest.raises(ValueError, match="no "):
        plot([], ax)


def test_timeline_draws_the_phases_of_the_last_rounds(ax):
    plot_timeline(RECORDS, ax, last=2)
    widths = sorted({round(float(patch.get_width()), 9) for patch in ax.patches})
    assert widths == [0.2, 0.5]  # M-step and E-step; queue and wait are gaps
    assert len(ax.patches) == 2 * 3 * 2
    assert ax.get_title(loc="left") == "rounds 10 to 11"


def test_stragglers_marks_the_slow_rank(ax):
    plot_stragglers(RECORDS, ax)
    assert [(text.get_text(), text.xy[1]) for text in ax.texts] == [("slow", 1)]
    image = ax.images[0].get_array()
    assert image.shape == (3, 12)
    assert image[1, 11] == pytest.approx(np.log2(3.0))
    assert image[0, 11] == pytest.approx(0.0)


def test_imbalance_shows_bytes_and_the_mean(ax):
    plot_imbalance(RECORDS, ax, round=3)
    assert [patch.get_height() for patch in ax.patches] == [1.0, 2.0, 3.0]
    assert ax.get_ylabel() == "kB"
    assert "1.50× the mean" in ax.get_title(loc="left")
    with pytest.raises(ValueError, match="round 99 has no records"):
        plot_imbalance(RECORDS, ax, round=99)


class Step:
    """As optimize's callback gets it."""

    def __init__(self, number, log_density):
        self.iter, self.log_density = number, log_density


@pytest.mark.parametrize("history", [[-3.0, -2.0, -1.5], [Step(1, -3.0), Step(2, -2.0), Step(3, -1.5)]])
def test_convergence_of_numbers_and_steps(history, ax):
    (line,) = plot_convergence(history, ax).lines
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert line.get_ydata().tolist() == [-3.0, -2.0, -1.5]


def test_convergence_of_gains_is_logarithmic(ax):
    plot_convergence([-3.0, -2.0, -1.5], ax, gains=True)
    assert ax.get_yscale() == "log"
    assert ax.lines[0].get_ydata().tolist() == [1.5, 0.5]


def test_without_matplotlib_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from mixle.errors import MissingPackage\n"
        "from mixle.plotting import plot_convergence\n"
        "try: plot_convergence([1.0])\n"
        "except MissingPackage as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "matplotlib' in done.stdout


@pytest.mark.parametrize(
    ("memory", "verdict"), [(None, "memory is not known"), (10**12, "it fits"), (10**6, "it does not fit")]
)
def test_a_placement_is_drawn_against_the_memory(ax, memory, verdict):
    placement = plan(total_rows=10**6, encoded_row_bytes=64.0, resources=Resources.local(3, memory_bytes=memory))
    assert plot_placement(placement, ax) is ax
    assert ax.get_title(loc="left") == f"1,000,000 rows: {verdict}"
    assert len(ax.lines) == (0 if memory is None else 3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cpu:0", "cpu:1", "cpu:2"]


def test_bytes_are_told_in_their_own_unit():
    few = [RankRecord(rank, 0, 1.0, n_obs=10, bytes_processed=10_000 + rank) for rank in range(2)]
    ax = plot_imbalance(few)
    assert ax.get_ylabel() == "kB"
    assert [bar.get_height() for bar in ax.patches] == [10.0, 10.001]


def test_the_legend_of_a_placement_lies_on_no_bar():
    ax = plot_placement(plan([1.0] * 1000, estimator=GaussianEstimator(), resources=Resources.local(3)))
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y0 >= max(bar.get_window_extent().y1 for bar in ax.patches)
