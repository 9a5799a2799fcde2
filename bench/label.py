"""The cost of one label: opcal's ask + tell against refitting, N = 5,000, d = 512, 500 labels; CPU time, one thread."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import opcal
from opcal.core.designs import PaperChooser
from opcal.methods import Paper

N, D, LABELS, STEPS = 5_000, 512, 500, 20
"""Slow rivals are timed at STEPS label counts spread evenly over 1 … LABELS, the touched cluster's refit at each
label: their cost a label, averaged over the run."""


@dataclass(frozen=True)
class Case:
    pool: opcal.Pool
    truth: np.ndarray[Any, Any]


def case(uneven: bool = False, n: int = N, d: int = D, classes: int = 10, seed: int = 0) -> Case:
    """Thirty overlapping groups of features and a random head.

    Even groups are of one size and 70 % right each. Uneven ones have sizes as 1, 1/2, 1/3, … and differ in how often
    they are right, as fields do: then the paper's design spends most labels in a few clusters.
    """
    rng = np.random.default_rng(seed)
    size = 1 / np.arange(1, 31) if uneven else np.ones(30)
    group = rng.choice(30, n, p=size / size.sum())
    z = (rng.standard_normal((30, d))[group] + rng.standard_normal((n, d))).astype(np.float32)
    h = (z @ rng.standard_normal((classes, d)).T * 1.5 / np.sqrt(d)).astype(np.float32)
    right = (rng.beta(3, 1.2, 30) if uneven else np.full(30, 0.7))[group]
    truth = np.where(rng.random(n) < right, h.argmax(1), rng.integers(0, classes, n))
    return Case(opcal.Pool.from_arrays(z, h), truth)


def run(case: Case, hyperparameters: Any, labels: int = LABELS) -> tuple[float, opcal.OperationalCalibrator]:
    """CPU seconds a label through the public ask and tell, the medoids' answers not counted."""
    calibrator = opcal.OperationalCalibrator(Paper(hyperparameters=hyperparameters), "paper", audit=0).begin(case.pool)
    first = calibrator.ask(30)
    calibrator.tell(first, labels=case.truth[first])
    started = time.process_time()
    for _ in range(labels - len(first)):
        i = calibrator.ask(1)
        calibrator.tell(i, labels=case.truth[i])
    return (time.process_time() - started) / (labels - len(first)), calibrator


@dataclass(frozen=True)
class Clusters:
    """What a rival is given: the same clusters, labels in the same order and hyper-parameters as opcal's own run."""

    z: list[np.ndarray[Any, Any]]
    labelled: list[list[int]]
    y: list[list[float]]
    lengths: list[float]
    touched: int


def moments_of_the_run(case: Case, calibrator: opcal.OperationalCalibrator, steps: int) -> Iterator[Clusters]:
    chooser: PaperChooser = calibrator._chooser_  # type: ignore[assignment]
    answers = calibrator.answers_
    residual = answers.correct - case.pool.confidence[answers.positions]
    z = [np.asarray(case.pool.features[m], dtype=np.float64) for m in chooser.rows.members]
    for n in np.linspace(30, len(answers), steps).astype(int):
        at = [chooser.rows.locate(int(j)) for j in answers.positions[:n]]
        labelled, y = [[] for _ in z], [[] for _ in z]
        for (c, row), r in zip(at, residual, strict=False):
            labelled[c].append(row)
            y[c].append(float(r))
        yield Clusters(z, labelled, y, [float(x) for x in chooser.learner.lengths], at[-1][0])


def timed(work: Callable[[Clusters], None], moments: list[Clusters]) -> float:
    work(moments[0])
    started = time.process_time()
    for moment in moments:
        work(moment)
    return (time.process_time() - started) / len(moments)


def sklearn_cluster(at: Clusters, c: int) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    if at.labelled[c]:
        gp = GaussianProcessRegressor(RBF(at.lengths[c]), alpha=0.1, optimizer=None)
        gp.fit(at.z[c][at.labelled[c]], np.array(at.y[c])).predict(at.z[c], return_std=True)


def sklearn_all(at: Clusters) -> None:
    for c in range(len(at.z)):
        sklearn_cluster(at, c)


def sklearn_touched(at: Clusters) -> None:
    sklearn_cluster(at, at.touched)


def gpytorch_fantasy(moments: list[Clusters]) -> float:
    """GPyTorch's own incremental update of the touched cluster, then its posterior over the cluster."""
    import gpytorch
    import torch

    torch.set_num_threads(1)

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x: Any, y: Any, likelihood: Any, length: float) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module.outputscale, self.covar_module.base_kernel.lengthscale = 1.0, length

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    spent = 0.0
    for at in moments:
        c = at.touched
        x, rows = torch.as_tensor(at.z[c]), at.labelled[c]
        y = torch.as_tensor(at.y[c], dtype=torch.float64)
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        likelihood.noise = 0.1
        before = slice(0, max(1, len(rows) - 1))
        model = Exact(x[rows[before]], y[before], likelihood, at.lengths[c]).double().eval()
        likelihood.eval()
        with torch.no_grad(), gpytorch.settings.fast_pred_var(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(x)
            started = time.process_time()
            posterior = model.get_fantasy_model(x[rows[-1:]], y[-1:])(x)
            _ = posterior.mean, posterior.variance
            spent += time.process_time() - started
    return spent / len(moments)


def activeml_query(case: Case, calibrator: opcal.OperationalCalibrator) -> float:
    """scikit-activeml's query loop: a Gaussian process on all labels, uncertainty sampling over the pool."""
    from skactiveml.pool import (  # noqa: F401  proves the regressors are there
        ExpectedModelVarianceReduction,
        GreedySamplingTarget,
        RegressionTreeBasedAL,
    )
    from skactiveml.regressor import SklearnRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    answers = calibrator.answers_
    z = np.asarray(case.pool.features, dtype=np.float64)
    residual = answers.correct - case.pool.confidence[answers.positions]
    length = float(np.median(calibrator.learner_.lengths))  # type: ignore[attr-defined]
    spent, counts = 0.0, np.linspace(30, len(answers), 3).astype(int)
    for n in counts:
        y = np.full(len(z), np.nan)
        y[answers.positions[:n]] = residual[:n]
        regressor = SklearnRegressor(GaussianProcessRegressor(RBF(length), alpha=0.1, optimizer=None))
        query = GreedySamplingTarget(random_state=0)
        started = time.process_time()
        query.query(z, y, reg=regressor, fit_reg=True)
        spent += time.process_time() - started
    return spent / len(counts)


def measure_case(made: Case) -> dict[str, Any]:
    run(made, "fixed", 60)
    fixed, calibrator = run(made, "fixed")
    likelihood, _ = run(made, "likelihood")
    moments = list(moments_of_the_run(made, calibrator, STEPS))
    every = list(moments_of_the_run(made, calibrator, LABELS - 30))
    rivals = {
        "sklearn_all_clusters": timed(sklearn_all, moments),
        "sklearn_touched_cluster": timed(sklearn_touched, every),
    }
    again, _ = run(made, "fixed")
    missing = {}
    for name, rival in {
        "gpytorch_fantasy": lambda: gpytorch_fantasy(moments),
        "activeml_query": lambda: activeml_query(made, calibrator),
    }.items():
        try:
            rivals[name] = rival()
        except ImportError as error:
            missing[name] = str(error)
    best = min(fixed, again)
    return {
        "ms_a_label": {"opcal_fixed": best * 1e3, "opcal_likelihood": likelihood * 1e3}
        | {name: seconds * 1e3 for name, seconds in rivals.items()},
        "times_faster": {name: seconds / best for name, seconds in rivals.items()},
        "times_faster_with_likelihood": {name: seconds / likelihood for name, seconds in rivals.items()},
        "not_installed": missing,
    }


def measure() -> dict[str, Any]:
    return {"even_groups": measure_case(case()), "uneven_groups": measure_case(case(uneven=True))}


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
