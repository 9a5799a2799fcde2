"""Algorithm 1 in plain loops: every cluster refitted from nothing at every step, textbook moments, no cleverness.

It is given opcal's clusters, lengths and hyper-parameters and must choose the same items and say the same confidence.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import norm


def cluster_moments(x, labelled, y, amplitude, length, noise):
    """Mean and variance at x of a GP given y at x[labelled], by solving from scratch."""
    if len(labelled) == 0:
        return np.zeros(len(x)), np.full(len(x), amplitude)
    k = amplitude * np.exp(-cdist(x[labelled], x[labelled], "sqeuclidean") / (2 * length**2))
    cross = amplitude * np.exp(-cdist(x, x[labelled], "sqeuclidean") / (2 * length**2))
    inverse = np.linalg.inv(k + noise * np.eye(len(labelled)))
    return cross @ inverse @ y, amplitude - np.einsum("ij,jk,ik->i", cross, inverse, cross)


def truncated(m, s):
    a, b = (0 - m) / s, (1 - m) / s
    z = norm.cdf(b) - norm.cdf(a)
    mean = m + s * (norm.pdf(a) - norm.pdf(b)) / z
    variance = s**2 * (1 + (a * norm.pdf(a) - b * norm.pdf(b)) / z - ((norm.pdf(a) - norm.pdf(b)) / z) ** 2)
    return mean, np.sqrt(variance)


def scores(x, c, members, answered, residuals, kernels, threshold):
    """|mu_tn - lambda| / sigma_tn of every pool item."""
    score = np.empty(len(c))
    for rows, kernel in zip(members, kernels, strict=True):
        labelled = [int(np.flatnonzero(rows == j)[0]) for j in answered if j in set(rows.tolist())]
        y = np.array([residuals[j] for j in answered if j in set(rows.tolist())])
        mean, variance = cluster_moments(x[rows], labelled, y, kernel.amplitude, kernel.length, kernel.noise)
        mu, sigma = truncated(c[rows] + mean, np.sqrt(variance))
        score[rows] = np.abs(mu - threshold) / sigma
    return score


def next_item(score, answered):
    free = np.setdiff1d(np.arange(len(score)), answered)
    return int(free[np.argmin(score[free])])
