"""A scikit-learn pipeline and a table: what goes into its last step is the representation.

    python examples/extract_sklearn.py

The same from the command line, for what skops.io.dump wrote: opcal extract model.skops patients.csv --out pool
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from opcal.extract import extract


def patients(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.integers(20, 90, n), "pressure": rng.normal(120, 15, n)})
    return table.assign(id=[f"p{seed}-{i}" for i in range(n)], ward=rng.choice(["north", "south"], n))


def main() -> None:
    known = patients(300, seed=0)
    ill = np.where(known["age"] + known["pressure"] > 175, "ill", "well")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(known[["age", "pressure"]], ill)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "patients.csv"
        patients(200, seed=1).to_csv(file, index=False)

        found = extract(pipeline, file, out=Path(folder) / "pool")  # columns by the names that it was fitted on
        print(found.representation)  # the input of the last step (LogisticRegression), 2 numbers
        print(found.pool, found.pool.classes, found.pool.ids[0], sorted(found.pool.columns))


if __name__ == "__main__":
    main()
