"""Each figure draws on any data, shows the numbers it claims, and leaves matplotlib's global state alone."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from opcal.core import metrics
from opcal.report import plots

Data = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]
LABELS, RIGHT, FALSE = np.array([0, 5, 10, 31]), np.array([0.7, 0.3, 0.4, 0.42]), np.array([0.074, 0.02, 0.01, 0.006])


def ordinary() -> Data:
    """312 items of a model that claims too much, and a confidence that knows."""
    rng = np.random.default_rng(0)
    after = rng.beta(4, 1.2, 312)
    return np.clip(after + 0.15, 0, 1), after, rng.random(312) < after


def constant(value: float, correct: list[bool]) -> Data:
    return np.full(len(correct), value), np.full(len(correct), value), np.array(correct)


CASES: dict[str, Data] = {
    "ordinary": ordinary(),
    "all right": (*ordinary()[:2], np.ones(312, bool)),
    "all wrong": (*ordinary()[:2], np.zeros(312, bool)),
    "one right item": constant(0.7, [True]),
    "one wrong item": constant(0.7, [False]),
    "constant": constant(0.95, [True, False, True, True]),
    "certain and right": constant(1.0, [True, True]),
    "certain and wrong": constant(1.0, [False, False]),
    "no confidence": constant(0.0, [True, False]),
}


def summary(before: Any, after: Any, correct: Any) -> Figure:
    return plots.summary(before, after, correct, labels=LABELS, right=RIGHT, false=FALSE)


def lce(before: Any, after: Any, correct: Any, *, scaled: bool = True) -> Figure:
    return plots.lce_curve({"before": before, "after": after}, correct, scaled=scaled)


def lce_unscaled(*data: Any) -> Figure:
    return lce(*data, scaled=False)


each_figure = pytest.mark.parametrize("draw", [plots.reliability, lce, lce_unscaled], ids=lambda f: str(f.__name__))
each_case = pytest.mark.parametrize("case", CASES)


def png(figure: Figure) -> bytes:
    out = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(out, format="png", dpi=60)
    return out.getvalue()


def axes_with(figure: Figure, label: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_ylabel() == label)


def line(figure: Figure, label: str, ylabel: str) -> Line2D:
    return next(drawn for drawn in axes_with(figure, ylabel).get_lines() if drawn.get_label() == label)


def texts(figure: Figure) -> Iterator[Text]:
    """All words on the page; a tick beyond the limits of its axis is kept by matplotlib but not drawn."""
    figure.draw_without_rendering()
    beyond = {id(label) for axes in figure.axes for label in hidden_tick_labels(axes)}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and id(text) not in beyond:
            yield text


def hidden_tick_labels(axes: Any) -> Iterator[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        yield from (
            t.label1 for t in [*axis.get_major_ticks(), *axis.get_minor_ticks()] if not low <= t.get_loc() <= high
        )


@each_figure
@each_case
def test_any_data_draws_without_a_warning_and_no_text_covers_another(draw: Callable[..., Figure], case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(*CASES[case])
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    page = figure.bbox.padded(1)
    for i, (words, box) in enumerate(boxes):
        assert page.contains(*box.min), words
        assert page.contains(*box.max), words
        assert not [other for other, its in boxes[:i] if box.overlaps(its)], words


@pytest.mark.parametrize("case", ["ordinary", "one wrong item"])
def test_summary_is_written_as_png_without_a_warning_fits_its_page_and_changes_no_input(case: str) -> None:
    data = [array.copy() for array in CASES[case]]
    figure = summary(*data)
    assert png(figure).startswith(b"\x89PNG")
    assert all(figure.bbox.padded(1).contains(*text.get_window_extent().max) for text in texts(figure))
    assert all(map(np.array_equal, data, CASES[case]))


@pytest.mark.parametrize("shares", [([0.5], [0.1]), ([0.0, 0.0], [0.0, 0.0]), ([1.0, 1.0], [1.0, 0.0])])
def test_a_labelling_of_any_length_draws_without_a_warning(shares: tuple[list[float], list[float]]) -> None:
    right, false = map(np.array, shares)
    assert png(plots.efficiency_curve(np.arange(len(right)) * 10**6, right, false))


@each_case
def test_reliability_shows_the_bins_of_the_metric_and_hides_none(case: str) -> None:
    before, after, correct = CASES[case]
    figure = plots.reliability(before, after, correct)
    for name, confidence in (("before", before), ("after", after)):
        curve = metrics.reliability_curve(confidence, correct, bins=10, level=0.9)
        drawn = np.asarray(line(figure, name, "share that is right").get_data())
        np.testing.assert_allclose(drawn, [curve.confidence, curve.accuracy])


def test_histogram_below_counts_every_item_once_before_and_after() -> None:
    before, after, correct = CASES["ordinary"]
    old, new = axes_with(plots.reliability(before, after, correct), "items").containers
    for bars, confidence in ((old, before), (new, after)):
        heights = [bar.get_height() for bar in bars]
        assert heights == metrics.reliability_curve(confidence, correct, bins=10, level=0.9).count.tolist()
        assert sum(heights) == len(correct)


def test_an_item_on_the_edge_of_a_bin_is_drawn_in_its_own_bin() -> None:
    (bar,), _ = axes_with(plots.reliability(*constant(0.7, [True] * 10)), "items").containers
    assert 0.6 <= bar.get_x() <= bar.get_x() + bar.get_width() <= 0.7


def test_intervals_of_reliability_reach_from_lower_to_upper() -> None:
    before, after, correct = CASES["ordinary"]
    curve = metrics.reliability_curve(before, correct, bins=10, level=0.9)
    bars = axes_with(plots.reliability(before, after, correct), "share that is right").collections[1]
    ends = np.array([np.asarray(path.vertices)[:, 1] for path in bars.get_paths()])
    np.testing.assert_allclose(ends, np.column_stack([curve.lower, curve.upper]))


def test_reliability_title_states_accuracy_and_both_claims() -> None:
    before, after, correct = CASES["ordinary"]
    expected = f"{correct.mean():.0%} are right: claimed {before.mean():.0%}, now {after.mean():.0%}"
    assert plots.reliability(before, after, correct).get_suptitle() == expected


@pytest.mark.parametrize("scaled", [True, False])
@each_case
def test_lce_lines_are_the_metric_at_every_threshold(case: str, scaled: bool) -> None:
    before, after, correct = CASES[case]
    figure = lce(before, after, correct, scaled=scaled)
    for name, confidence in zip(("before", "after"), (before, after), strict=True):
        x, y = np.asarray(line(figure, name, "loss per item").get_data())
        expected = [metrics.lce(confidence, correct, threshold=t, scaled=scaled) for t in x]
        np.testing.assert_allclose(y, expected)


@each_case
def test_references_are_acting_on_nothing_and_on_everything(case: str) -> None:
    before, after, correct = CASES[case]
    drawn = (line(lce(before, after, correct), f"act on {what}", "loss per item") for what in ("nothing", "everything"))
    (x, nothing), (_, everything) = (np.asarray(reference.get_data()) for reference in drawn)
    np.testing.assert_allclose(nothing, (1 - x) * correct.mean(), atol=1e-12)
    np.testing.assert_allclose(everything, x * (1 - correct.mean()), atol=1e-12)


def test_lce_title_compares_the_last_series_with_the_first() -> None:
    perfect, correct = np.array([1.0, 1.0, 0.0, 0.0]), np.array([True, True, False, False])
    sure, unsure = np.ones(4), np.zeros(4)

    def title(**confidences: NDArray[np.float64]) -> str:
        return plots.lce_curve(confidences, correct, threshold=0.8).get_suptitle()

    assert title(before=sure, after=perfect) == "Wrong confidence costs 100% less at λ = 0.8"
    assert title(before=unsure, middle=perfect, after=sure) == "Wrong confidence costs 300% more at λ = 0.8"
    assert title(before=perfect, after=sure) == "Wrong confidence costs more at λ = 0.8"
    assert (
        title(before=sure, after=sure)
        == title(before=perfect, after=perfect)
        == "Wrong confidence costs the same at λ = 0.8"
    )
    assert title(now=sure) == "Wrong confidence costs 0.400 at λ = 0.8"


def test_efficiency_shows_the_given_shares_and_names_first_and_last() -> None:
    figure = plots.efficiency_curve(LABELS, RIGHT, FALSE, threshold=0.8)
    for name, share in (("right", RIGHT), ("false", FALSE)):
        np.testing.assert_array_equal(line(figure, name, f"confident and {name}").get_data(), [LABELS, share])
    assert figure.get_suptitle() == "31 labels: confident mistakes 7.4% → 0.6%"
    assert any("≥ 0.8" in text.get_text() for text in texts(figure))


def test_summary_shows_the_same_lines_as_the_three_figures() -> None:
    data = CASES["ordinary"]
    joined = summary(*data)
    parts = [plots.reliability(*data), lce(*data), plots.efficiency_curve(LABELS, RIGHT, FALSE)]
    for axes in (axes for part in parts for axes in part.axes):
        assert axes.get_title(loc="left") == axes_with(joined, axes.get_ylabel()).get_title(loc="left")
        for drawn in axes.get_lines():
            twin = line(joined, str(drawn.get_label()), axes.get_ylabel())
            np.testing.assert_array_equal(np.asarray(twin.get_data()), np.asarray(drawn.get_data()))
    assert [sub.get_suptitle() for sub in joined.subfigs] == [part.get_suptitle() for part in parts]


def test_legend_of_reliability_stands_above_every_point() -> None:
    figure = plots.reliability(*CASES["all right"])
    figure.draw_without_rendering()
    axes = axes_with(figure, "share that is right")
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 > axes.transData.transform((0, 1))[1]


@each_figure
def test_series_of_one_panel_stay_apart_in_grey_print(draw: Callable[..., Figure]) -> None:
    for axes in draw(*CASES["ordinary"]).axes:
        looks = [
            (d.get_linestyle(), d.get_marker()) for d in axes.get_lines() if not str(d.get_label()).startswith("_")
        ]
        assert len(set(looks)) == len(looks)


def test_matplotlib_is_imported_only_to_draw_and_pyplot_never() -> None:
    script = (
        "import sys, numpy as np; from opcal.report import plots; assert 'matplotlib' not in sys.modules\n"
        "c = np.array([.2, .9]); plots.summary(c, c, c > .5, labels=c, right=c, false=c)\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
