"""The second round on a changed field: 30 new labels beside the 60 old ones, against 60 new labels and nothing else.

    make bench-rounds        (python bench/rounds.py --shared ../shared --splits 20)

A calibrator is taught with 60 labels on 900 USPS digits. Then the field changes:

- *mixed*: half of the items are digits of MNIST, through the same network (`t1_mnist_usps`, `origin_t1_mnist`);
- *blurred*: other USPS digits, all blurred (Gaussian of 1, 1.5 and 2 pixels of 16), features computed anew by the
  LeNet-5 of `opcal paper`'s task 1, which is trained here (seconds on a CPU).

Brier scores on 450 to 900 unseen items of the changed field, by split; the standard error is that of the paired
difference.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import opcal
from opcal.metrics import brier
from opcal.monitor import next_round

OLD, NEW, FIRST, SECOND, ANEW = 900, 450, 60, 30, 60
Arrays = tuple[Any, Any, Any]
"""Features, logits and labels."""


@dataclass(frozen=True)
class Rounds:
    """The field of the first round, the changed one, and unseen items of that."""

    old: Arrays
    new: Arrays
    test: Arrays


def of_file(shared: Path, name: str) -> Arrays:
    with np.load(shared / "bench" / f"{name}.npz") as d:
        z, weight, bias = (d[k].astype(np.float32) for k in ("features", "head_weight", "head_bias"))
        logits = d["logits"].astype(np.float32) if "logits" in d.files else z @ weight.T + bias
        return z, logits, d["labels"].astype(int)


def rows(of: Arrays, at: Any) -> Arrays:
    return of[0][at], of[1][at], of[2][at]


def both(one: Arrays, two: Arrays) -> Arrays:
    return np.vstack([one[0], two[0]]), np.vstack([one[1], two[1]]), np.append(one[2], two[2])


def mixed(shared: Path) -> Callable[[int], Rounds]:
    usps, mnist = of_file(shared, "t1_mnist_usps"), of_file(shared, "origin_t1_mnist")

    def split(seed: int) -> Rounds:
        rng = np.random.default_rng(seed)
        a, b = rng.permutation(len(usps[2])), rng.permutation(len(mnist[2]))
        fields = [both(rows(usps, a[OLD + k : OLD + k + NEW]), rows(mnist, b[k : k + NEW])) for k in (0, NEW)]
        return Rounds(rows(usps, a[:OLD]), *fields)

    return split


def blurred(shared: Path, pixels: float) -> Callable[[int], Rounds]:
    from scipy.ndimage import gaussian_filter

    sharp, network = digits(shared)
    smooth = gaussian_filter(sharp[0].astype(float), (0, pixels, pixels)).round().astype(sharp[0].dtype)
    fields = [(*network.outputs(images), sharp[1]) for images in (sharp[0], smooth)]

    def split(seed: int) -> Rounds:
        a = np.random.default_rng(seed).permutation(len(sharp[1]))
        return Rounds(rows(fields[0], a[:OLD]), *(rows(fields[1], a[OLD + k : OLD + k + NEW]) for k in (0, NEW)))

    return split


def digits(shared: Path) -> tuple[tuple[Any, Any], Any]:
    """USPS' images and labels, and the network of task 1."""
    from opcal.experiments.settings import Settings
    from opcal.experiments.tasks import t1_digits as task

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=shared / "data", out=Path(folder))
        domains = task.data(settings)
        network = task.TRAIN(domains, 0, settings, Path(folder) / "lenet.safetensors")
    return (domains.field.inputs, domains.field.labels), network


KINDS: dict[str, Callable[[Path], Callable[[int], Rounds]]] = {
    "mixed": mixed,
    **{f"blurred {pixels:g}": partial(blurred, pixels=pixels) for pixels in (1.0, 1.5, 2.0)},
}


def pool(of: Arrays) -> opcal.Pool:
    return opcal.Pool.from_arrays(of[0], of[1])


def taught(calibrator: opcal.OperationalCalibrator, labels: Any) -> opcal.OperationalCalibrator:
    while len(i := calibrator.ask(15)):
        calibrator.tell(i, labels=labels[i])
    return calibrator


def losses(r: Rounds, seed: int) -> dict[str, float]:
    """Brier scores of the model itself, the first round's calibrator, the second round's, and one begun anew."""

    def alone(field: Arrays, budget: int) -> opcal.OperationalCalibrator:
        return taught(opcal.OperationalCalibrator(random_state=seed).begin(pool(field), budget=budget), field[2])

    first, new, test = alone(r.old, FIRST), pool(r.new), pool(r.test)
    second = taught(next_round(first, new).begin(first, budget=SECOND), r.new[2])
    anew, fewer = alone(r.new, ANEW), alone(r.new, SECOND)
    right = test.predicted == r.test[2]
    found = {"uncalibrated": brier(test.confidence, right)}
    named = {"first round only": first, "second round": second, "60 anew": anew, "30 anew": fewer}
    return found | {name: brier(c.confidence(test), right) for name, c in named.items()}


def measure(shared: Path, kinds: list[str], splits: int) -> Iterator[dict[str, Any]]:
    for kind in kinds:
        split = KINDS[kind](shared)
        found = [losses(split(seed), seed) for seed in range(splits)]
        difference = np.array([f["second round"] - f["60 anew"] for f in found])
        error = difference.std(ddof=1) / np.sqrt(splits)
        yield {
            "kind": kind,
            "splits": splits,
            **{name: float(np.mean([f[name] for f in found])) for name in found[0]},
            "second_minus_anew": float(difference.mean()),
            "standard_error": float(error),
            "splits_at_least_as_good": int((difference <= 0).sum()),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    given = parser.parse_args()
    for found in measure(given.shared, given.kinds, given.splits):
        print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
