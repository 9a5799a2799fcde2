"""A labelling session on the shipped X-rays, their images as payload."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opcal.data import Case, load_pneumonia
from opcal.pool import Pool
from opcal.session import Session
from opcal.web.labelling.desk import MEDIA

BUDGET = 60
ENLARGED = 8
"""The shipped X-rays have 28 pixels a side; enlarged smoothly they look like X-rays."""


def demo_session(out: Path, seed: int = 0) -> Session:
    """The session in `out`/session: the one that is there already, or a new one."""
    folder = out / "session"
    if (folder / "session.json").exists():
        return Session.open(folder)
    case = load_pneumonia()
    pool = Pool.from_arrays(
        features=case.features,
        logits=case.logits,
        ids=list(case.ids),
        classes=case.classes,
        head=(case.head_weight, case.head_bias),
        payload=[f"{name}.png" for name in case.ids],
    )
    out.mkdir(parents=True, exist_ok=True)
    session = Session.start(pool, folder, budget=BUDGET, seed=seed, ahead=12)
    write_images(case, folder / MEDIA)
    return session


def write_images(case: Case, folder: Path) -> None:
    from PIL import Image

    folder.mkdir()
    for name, pixels in zip(case.ids, case.images, strict=True):
        side = pixels.shape[0] * ENLARGED
        Image.fromarray(np.asarray(pixels)).resize((side, side), Image.Resampling.BICUBIC).save(folder / f"{name}.png")
