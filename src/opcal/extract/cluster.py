"""Ray: a cluster of this machine or another, with its usage reporting off."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opcal.errors import MissingDependency


def ray() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its workers would talk into the progress bar
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray as found
    except ImportError as error:
        raise MissingDependency("engine ray needs Ray: pip install 'opcal[ray]'") from error
    return found


def begin(address: str | None, workers: int, threads: int | None = None) -> bool:
    """A cluster to work on; True where it was started here and is to be stopped again."""
    found = ray()
    if found.is_initialized():
        return False
    variables = {"RAY_USAGE_STATS_ENABLED": "0"}
    if threads is not None:  # Ray would give each worker one; other bits may come of it
        variables["OMP_NUM_THREADS"] = str(threads)
    how: dict[str, Any] = dict(include_dashboard=False) if address is None else dict(address=address)
    if address is None:  # workers on this machine find the same modules
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        how |= dict(num_cpus=max(workers + 1, 2), object_store_memory=512 * 2**20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.init(logging_level=logging.ERROR, log_to_driver=False, runtime_env={"env_vars": variables}, **how)
    return True


@contextmanager
def running(address: str | None, workers: int, threads: int | None = None) -> Iterator[None]:
    """A cluster to work on; one that was started for it ends with the block."""
    started = begin(address, workers, threads)
    try:
        yield
    finally:
        end(started)


def end(started: bool) -> None:
    if started:
        ray().shutdown()


def ray_data() -> Any:
    """Ray Data, quiet and in order."""
    ray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray import data

        context = data.DataContext.get_current()
        context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return data


def cause(error: BaseException) -> str:
    """The line of Ray's many that says what was wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(ray\.exceptions\.\w+: )?([\w.]*(Error|Exception)): ?", line)]
    return (telling or lines or [type(error).__name__])[-1][:300]
