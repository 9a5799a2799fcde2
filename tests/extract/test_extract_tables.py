"""Tables of texts, numbers and images, and scikit-learn models, which take them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from extract_cases import differing, image_folder, network, rows
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import opcal
from opcal import errors
from opcal.extract import extract

TEXTS = ["a good film", "so bad", "great, good", "bad, bad film"] * 30


def frame(n=90) -> pd.DataFrame:
    x = pd.DataFrame(rows(n, 4), columns=["x_0", "x_1", "x_2", "x_10"])
    return x.assign(id=[f"{i:03d}" for i in range(n)], ward=["north", "south", "west"] * (n // 3), age=np.arange(n))


def written(table: pd.DataFrame, path: Path) -> Path:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(arrow, path, row_group_size=16)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, arrow.schema) as writer:
            writer.write_table(arrow, max_chunksize=16)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, arrow.schema) as writer:
            writer.write_table(arrow, max_chunksize=16)
        path = path.rename(path.with_suffix(".arrow"))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow", ".stream"])
def test_every_kind_of_file_gives_the_same_pool(tmp_path, suffix):
    path = written(frame(), tmp_path / f"table{suffix}")
    found = extract(network, path, out=tmp_path / "pool", inputs=["x_*"], batch_size=7).pool
    np.testing.assert_allclose(found.features, frame()[["x_0", "x_1", "x_2", "x_10"]].to_numpy(), rtol=1e-6)
    assert found.ids == frame()["id"].tolist()
    assert found.columns == {"ward": frame()["ward"].tolist(), "age": frame()["age"].tolist()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("at", [7, 16, 49])
def test_a_table_is_resumed_from_any_row(tmp_path, suffix, at):
    path, calls = written(frame(), tmp_path / f"table{suffix}"), []

    def stops(batch):
        calls.append(1)
        if len(calls) == 1 + at // 7:
            raise KeyboardInterrupt
        return network(batch)

    stops.__name__ = "network"
    options = dict(inputs=["x_*"], batch_size=7)
    with pytest.raises(KeyboardInterrupt):
        extract(stops, path, out=tmp_path / "pool", **options)
    assert extract(network, path, out=tmp_path / "pool", resume=True, **options).resumed_at == 7 * (at // 7 - 1)
    extract(network, path, out=tmp_path / "whole", **options)
    assert differing(tmp_path / "whole", tmp_path / "pool") == []


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        written(frame().iloc[30 * i : 30 * i + 30], folder / f"part{i}.parquet")
    found = extract(network, folder, out=tmp_path / "pool", inputs=["x_*"], batch_size=7, limit=80).pool
    assert found.ids == frame()["id"].tolist()[:80]
    np.testing.assert_array_equal(found.features, rows(90, 4)[:80])


def test_a_column_of_lists_is_the_input(tmp_path):
    x = rows(20)
    table = pa.table({"id": list(range(20)), "pixels": list(x)})
    np.testing.assert_array_equal(extract(network, table, out=tmp_path / "pool").pool.features, x[:, :4])


def test_images_come_from_paths_or_bytes_in_a_table(tmp_path):
    folder = image_folder(tmp_path / "images", n=5, broken=[3])

    def pixels(images):
        return network(images[:, 0, 0, :6])

    plain = extract(pixels, folder, out=tmp_path / "plain", on_bad="skip").pool
    listed = pd.DataFrame({"id": [f"scan {i}" for i in range(5)], "image": [f"images/{i:02d}.png" for i in range(5)]})
    stored = [{"bytes": (folder / f"{i:02d}.png").read_bytes(), "path": "x.png"} for i in range(5)]
    pq.write_table(pa.table({"image": stored}), tmp_path / "bytes.parquet")
    named = extract(pixels, written(listed, tmp_path / "t.csv"), out=tmp_path / "a", image="image", on_bad="skip").pool
    inside = extract(pixels, tmp_path / "bytes.parquet", out=tmp_path / "b", on_bad="skip").pool
    for pool in (named, inside):
        np.testing.assert_array_equal(pool.features, plain.features)
    assert named.ids == ["scan 0", "scan 1", "scan 2", "scan 4"]
    assert named.payload == plain.payload
    assert inside.ids == ["0", "1", "2", "4"]


@pytest.mark.parametrize(
    ("table", "options", "told"),
    [
        ({"id": ["a", "a"], "x": [1.0, 2.0]}, {}, "same id in rows 0 and 1"),
        ({"id": ["a", None], "x": [1.0, 2.0]}, {}, "has no id in row 1"),
        ({"x": [1.0, 2.0]}, {"text": "review"}, "no column 'review'"),
        ({"x": [1.0, 2.0]}, {"inputs": ["y_*"]}, "no column 'y_*'"),
        ({"a": ["s", "t"], "b": ["s", "t"]}, {}, "name it with --text"),
        ({"text": ["s", None]}, {}, "there is no text"),
    ],
)
def test_what_a_table_lacks_is_told_by_name(tmp_path, table, options, told):
    with pytest.raises(errors.OpcalError) as refused:
        extract(lambda b: network(rows(len(b))), pa.table(table), out=tmp_path / "pool", **options)
    assert told in str(refused.value)


def test_a_row_that_does_not_fit_is_told_with_its_file(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n1,2\n3,4,5\n")
    with pytest.raises(errors.DataError, match=r"t\.csv"):
        extract(network, tmp_path / "t.csv", out=tmp_path / "pool")


# scikit-learn


def fitted(last, classes=3):
    x = rows(200, 4)
    y = np.array(["ant", "bee", "cat"])[np.digitize(x[:, 0] + 0.5 * x[:, 1], [-0.4, 0.5])]
    y = np.where(y == "cat", "bee", y) if classes == 2 else y
    return make_pipeline(StandardScaler(), last).fit(x, y), x


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("last", "has_head"),
    [
        (LogisticRegression(), True),
        (LinearSVC(), True),
        (MLPClassifier((8, 5), max_iter=2000, solver="lbfgs", random_state=0), True),
        (GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}), True),
        (RandomForestClassifier(20, random_state=0), False),
        (SVC(), False),
        (OneVsRestClassifier(LogisticRegression()), False),
    ],
    ids=lambda v: type(v).__name__,
)
def test_predictions_and_probabilities_stay_the_pipelines_own(tmp_path, last, has_head, classes):
    pipeline, x = fitted(last, classes)
    pool = extract(pipeline, x, out=tmp_path / "pool", batch_size=50).pool
    assert [pool.classes[k] for k in pool.predicted] == pipeline.predict(x).tolist()
    assert (pool.head is not None) == has_head
    if has_head:
        np.testing.assert_allclose(pool.features @ pool.head.weight.T + pool.head.bias, pool.logits, atol=1e-4)
    if hasattr(pipeline, "predict_proba"):
        # Logits are stored in float32: those of a network near 50 are off by 4e-6.
        np.testing.assert_allclose(pool.confidence, pipeline.predict_proba(x).max(1), atol=1e-5)


def test_a_network_gives_its_last_hidden_layer(tmp_path):
    pipeline, x = fitted(MLPClassifier((8, 5), max_iter=2000, solver="lbfgs", random_state=0))
    found = extract(pipeline, x, out=tmp_path / "pool")
    assert found.pool.features.shape == (200, 5)
    assert "last hidden layer" in found.representation


def test_a_pipeline_that_knows_its_columns_gets_them_by_name_in_any_order(tmp_path):
    table = frame()
    y = np.where(table["x_0"] > table["x_10"], "a", "b")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(table[["x_10", "x_0"]], y)
    pool = extract(pipeline, written(table, tmp_path / "t.parquet"), out=tmp_path / "pool").pool
    assert [pool.classes[k] for k in pool.predicted] == pipeline.predict(table[["x_10", "x_0"]]).tolist()
    assert "x_1" in pool.columns
    with pytest.raises(errors.DataError, match="lacks 'x_10'"):
        extract(pipeline, table.drop(columns="x_10"), out=tmp_path / "other")


def test_texts_keep_themselves_as_what_a_person_sees(tmp_path):
    pipeline = make_pipeline(TfidfVectorizer(), TruncatedSVD(3), LogisticRegression()).fit(TEXTS, [1, 0, 1, 0] * 30)
    pd.DataFrame({"key": range(120), "review": TEXTS}).to_csv(tmp_path / "t.csv", index=False)
    found = extract(pipeline, tmp_path / "t.csv", out=tmp_path / "pool", batch_size=16).pool
    assert found.payload == TEXTS
    assert found.predicted.tolist() == pipeline.predict(TEXTS).tolist()
    listed = extract(pipeline, TEXTS, out=tmp_path / "listed").pool
    np.testing.assert_allclose(listed.logits, found.logits, atol=1e-6)


def test_a_bag_of_words_that_is_too_wide_is_refused_with_a_remedy(tmp_path):
    words = [f"w{i}" for i in range(20_000)]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit([" ".join(words), "other"], [0, 1])
    with pytest.raises(errors.DataError, match="TruncatedSVD"):
        extract(pipeline, ["w1 w2", "other"], out=tmp_path / "pool")


def test_a_model_that_does_not_fit_the_data_or_is_not_fitted_is_told(tmp_path):
    pipeline, _ = fitted(LogisticRegression())
    with pytest.raises(errors.ModelError, match="cannot take the data"):
        extract(pipeline, rows(20, 7), out=tmp_path / "pool")
    with pytest.raises(errors.ModelError, match="fit the pipeline"):
        extract(LogisticRegression(), rows(20, 7), out=tmp_path / "pool")


def test_pickles_are_never_loaded(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(errors.ModelError, match="never unpickles"):
        extract(str(tmp_path / "m.pkl"), rows(20), out=tmp_path / "pool")
    assert not Path("pwned").exists()


def test_the_pool_of_a_pipeline_is_calibrated_as_any_other(tmp_path):
    pipeline, x = fitted(LogisticRegression())
    pool = extract(pipeline, x, out=tmp_path / "pool").pool
    calibrator = opcal.OperationalCalibrator().begin(pool, budget=20)
    while len(i := calibrator.ask(5)):
        calibrator.tell(i, labels=pool.predicted[i])
    assert calibrator.confidence(pool).mean() > 0.8
