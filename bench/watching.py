"""How the watch and the fence do on real networks: alarms, and what is thought of items of another data set.

    make bench-watching        (python bench/watching.py --shared ../shared --runs 40)

- *alarms*: 300 items of the field, against 1,000 of the network's own domain (or all that there are): the share of
  runs that alarm at the first look;
- *out of field*: features of another data set through the same network (art paintings and down-sampled ImageNet, each
  for the other; EfficientNet-lite0 of 1,280 features). A calibrator with 60 labels on half of its own field looks at
  400 of them: the share with P(confidence >= .9) below ½, by the method alone, by `score` and `serve` (each item
  alone), and by `watch` (the batch). Beside it the price: the share of unseen items of its own field that are flagged,
  and their Brier score without and with it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rounds import of_file

import opcal
from opcal.artifact.saving import artifact_of
from opcal.metrics import brier
from opcal.monitor import watch

OLD, NEW, STRANGE, LABELS = 1000, 300, 400, 60
FIELDS = {
    "t1": ("origin_t1_mnist", "t1_mnist_usps"),
    "t3": ("origin_t3_cifar", "t3_cifar_stl"),
    "t8": ("origin_t8_pneumonia_val", "t8_pneumonia"),
}
PAIRS = [("t5_pacs_art", "t6_imagenet_downsampled"), ("t6_imagenet_downsampled", "t5_pacs_art")]


def alarms(shared: Path, task: str, runs: int) -> dict[str, Any]:
    (z, h, _), (z2, h2, _) = (of_file(shared, name) for name in FIELDS[task])
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        old, new = rng.permutation(len(z))[:OLD], rng.permutation(len(z2))[:NEW]
        pool = opcal.Pool.from_arrays(z[old], h[old])
        calibrator = opcal.OperationalCalibrator("paper", random_state=seed).begin(pool)
        found.append(watch(calibrator, opcal.Pool.from_arrays(z2[new], h2[new])).alarm)
    return {"task": task, "runs": runs, "items": NEW, "alarms": int(np.sum(found))}


def out_of_field(shared: Path, mine: str, other: str, runs: int) -> dict[str, Any]:
    (z, h, y), strangers = of_file(shared, mine), of_file(shared, other)[0]
    with np.load(shared / "bench" / f"{mine}.npz") as d:
        weight, bias = d["head_weight"].astype(np.float32), d["head_bias"].astype(np.float32)
    rows = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        order, some = rng.permutation(len(z)), strangers[rng.permutation(len(strangers))[:STRANGE]]
        here, unseen = order[: len(z) // 2], order[len(z) // 2 :][:STRANGE]
        pool = opcal.Pool.from_arrays(z[here], h[here])
        calibrator = opcal.OperationalCalibrator(random_state=seed).fit(pool, range(LABELS), labels=y[here][:LABELS])
        strange = opcal.Pool.from_arrays(some, some @ weight.T + bias)
        right = h[unseen].argmax(1) == y[unseen]
        own = opcal.Pool.from_arrays(z[unseen], h[unseen])
        artifact, looked = artifact_of(calibrator), watch(calibrator, strange)
        above = {
            "method alone": calibrator.posterior(strange).above(0.9),
            "score and serve": artifact.judged(strange.outputs, 0.9).above,
            "watch": looked.posterior.above(0.9),
        }
        rows.append(
            {name: float((a < 0.5).mean()) for name, a in above.items()}
            | {"outside": float(artifact.outside(strange).mean()), "outside by watch": float(looked.outside.mean())}
            | {"own": float(artifact.outside(own).mean()), "own by watch": float(watch(calibrator, own).outside.mean())}
            | {"brier": brier(calibrator.confidence(own), right)}
            | {"brier with fence": brier(artifact.judged(own.outputs).confidence, right)}
        )
    return {"field": mine, "items of": other, "runs": runs} | {k: float(np.mean([r[k] for r in rows])) for k in rows[0]}


def measure(shared: Path, runs: int) -> Iterator[dict[str, Any]]:
    for task in FIELDS:
        yield alarms(shared, task, runs)
    for mine, other in PAIRS:
        yield out_of_field(shared, mine, other, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    for found in measure(given.shared, given.runs):
        print(json.dumps(found), flush=True)
