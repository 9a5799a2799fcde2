"""A region on the disk: what was frozen, asked and tested so far, in one file without pickles."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from opcal.assess.promises import ErrorPromise, promised
from opcal.assess.region import Region
from opcal.calibrator import OperationalCalibrator
from opcal.core.certificate import Broken, Looks
from opcal.costs import class_list, from_dict
from opcal.errors import ArtifactError, IncompatiblePool

VERSION = 1


def save(region: Region, options: dict[str, Any], path: str | Path) -> None:
    """Write it whole or not at all. `options` are those of `opcal.assess.region` that made it."""
    path = Path(path)
    about = {
        "version": VERSION,
        "options": options,
        "planned": region.planned,
        "cuts": list(region.cuts),
        "settled": region.settled,
        "doubt": region.doubt,
        "asked": region.asked,
        "answers": {str(position): label for position, label in region.answers.items()},
        "looks": {repr(cut): _plain(looks) for cut, looks in region.promise.looks.items()},
    }
    wrong = region.promise.wrong if isinstance(region.promise, ErrorPromise) else np.zeros(0, bool)
    written = path.with_name(path.name + ".new")
    with written.open("wb") as file:
        np.savez(
            file,
            about=np.array(json.dumps(about)),
            confidence=region.confidence,
            known=region.known,
            wrong=wrong,
            order=region.order,
        )
        file.flush()
        os.fsync(file.fileno())
    written.replace(path)


def load(cal: OperationalCalibrator, path: str | Path) -> tuple[Region, dict[str, Any]]:
    """The region as it was left, and the options that made it. The calibrator gives the pool, nothing else."""
    try:
        with np.load(Path(path), allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            arrays = {name: stored[name] for name in ("confidence", "known", "wrong", "order")}
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(f"{path} is no stored region: {error}") from None
    if about["version"] != VERSION:
        raise ArtifactError(f"{path} has version {about['version']!r}, this opcal reads {VERSION}")
    if len(arrays["known"]) != len(cal.pool_):
        raise IncompatiblePool(
            f"{path} is about a pool of {len(arrays['known'])} items, this one has {len(cal.pool_)}: a promise does "
            "not pass to a pool that grew; make a new region"
        )
    options = dict(about["options"])
    promise = promised(cal, **_parsed(cal, options))
    if isinstance(promise, ErrorPromise):
        promise.wrong = arrays["wrong"]
    promise.looks.update({float(cut): _looks(plain) for cut, plain in about["looks"].items()})
    found = Region(cal.pool_, None, promise, arrays["confidence"], arrays["known"], about["planned"], arrays["order"])
    found.thaw(tuple(about["cuts"]), about["settled"], about["doubt"], about["asked"], about["answers"])
    return found, options


def _parsed(cal: OperationalCalibrator, options: dict[str, Any]) -> dict[str, Any]:
    known = {name: options.get(name) for name in ("error", "recall", "of", "gain", "costs")}
    costs = known["costs"]
    made = from_dict(costs, class_list(cal.pool_)) if isinstance(costs, dict) else costs
    return known | {"about": options.get("about", "pool"), "costs": made}


def _plain(looks: Looks) -> dict[str, Any]:
    return {
        "broken": asdict(looks.broken),
        "doubt": looks.doubt,
        "n": looks.n,
        "spent": looks.spent,
        "passed": looks.passed,
        "running": looks.running.tolist(),
    }


def _looks(plain: dict[str, Any]) -> Looks:
    kept = {name: plain[name] for name in ("doubt", "n", "spent", "passed")}
    return Looks(Broken(**plain["broken"]), **kept, running=np.array(plain["running"]))
