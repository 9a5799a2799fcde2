"""Example inputs of origin and operation, for tasks of images. Their licences let them be shown, not shipped."""

from __future__ import annotations

from pathlib import Path

from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Task


def draw(settings: Settings, task: Task) -> list[Path]:
    if task.pictures is None:
        return []
    from matplotlib.figure import Figure

    rows = task.pictures(settings)
    figure = Figure(figsize=(7.2, 2.9), layout="constrained", dpi=110)
    axes = figure.subplots(2, len(rows[0]))
    for row, (name, images) in enumerate(zip(("origin", "operation"), rows, strict=True)):
        for ax, image in zip(axes[row], images, strict=True):
            ax.imshow(image, cmap="gray" if image.ndim == 2 else None)
            ax.set_axis_off()
        axes[row][0].set_title(name, loc="left", fontsize=9)
    figure.suptitle(f"task {task.name}: {task.title}", x=0.01, ha="left", fontsize=10)
    (settings.out / "figures").mkdir(parents=True, exist_ok=True)
    path = settings.out / "figures" / f"examples-t{task.name}.png"
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path)
    return [path]
