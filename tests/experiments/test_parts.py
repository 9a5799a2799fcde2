"""The parts of the evaluation that compute: the head, the authors' way, choosers, layouts, words."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from conftest import make_case
from PIL import Image
from sklearn.linear_model import LogisticRegression

from opcal.calibrator import OperationalCalibrator
from opcal.errors import InvalidInput, PoolError
from opcal.experiments import authors, layouts, linear, reviews
from opcal.experiments.choosers import Density, Disagreement, Uncertainty
from opcal.experiments.shift import Part, Shift, load, save, split_of
from opcal.experiments.stages.curves import counts_of
from opcal.experiments.stages.scores import LAMBDAS, scores
from opcal.experiments.tasks.base import Examples
from opcal.experiments.telling.markdown import html, table
from opcal.experiments.telling.runs import Runs


def shift(n: int = 240, seed: int = 0) -> Shift:
    case = make_case(n, seed=seed)
    part = Part(case.features, case.logits, case.labels)
    weight = np.linalg.lstsq(case.features, case.logits, rcond=None)[0].T
    bias = np.zeros(4)
    return Shift(part, part, part, weight, bias, 0.5, groups={"even": np.arange(n) % 2 == 0})


def test_the_head_is_scikit_learns_logistic_regression():
    case = make_case(300)
    ours = linear.trained(Examples(case.features, case.labels), 4, penalty=2.0)
    theirs = LogisticRegression(C=0.5, tol=1e-9, max_iter=2000).fit(case.features, case.labels)
    ours_p, theirs_p = ours.outputs(case.features)[1], theirs.decision_function(case.features)
    gap = (ours_p - ours_p.mean(1, keepdims=True)) - (theirs_p - theirs_p.mean(1, keepdims=True))
    assert np.abs(gap).max() < 2e-2


def test_fine_tuning_the_head_helps_where_labels_tell_and_keeps_it_where_they_do_not():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 5)).astype(np.float32)
    w = rng.standard_normal((3, 5)).astype(np.float32)
    labels = (z @ w.T).argmax(1)
    start = np.zeros((3, 5), np.float32), np.zeros(3, np.float32)
    tuned = linear.fine_tuned_head(*start, z, labels, seed=0, epochs=300)
    assert ((z @ tuned[0].T + tuned[1]).argmax(1) == labels).mean() > 0.8
    kept = linear.fine_tuned_head(30 * w, np.zeros(3, np.float32), z, labels, seed=0, epochs=300)
    np.testing.assert_array_equal(kept[0].argsort(), (30 * w).argsort())


def test_the_authors_way_scores_one_minus_accuracy_where_classes_are_many():
    split = split_of(shift(), 0)
    rows = np.arange(len(split.here))
    accuracy = split.unseen.correct.mean()
    for name in ("IR", "SAR"):
        confidence = authors.AUTHORS[name](split, rows)(split.unseen)
        brier = ((confidence - split.unseen.correct) ** 2).mean()
        assert brier == pytest.approx(1 - accuracy, abs=0.03)
    for fit in authors.AUTHORS.values():
        confidence = fit(split, rows)(split.unseen)
        assert ((confidence >= 0) & (confidence <= 1)).all()


def test_a_shift_on_disk_is_the_same(tmp_path):
    made = shift()
    save(made, tmp_path / "m.npz")
    found = load(tmp_path / "m.npz")
    np.testing.assert_array_equal(found.field.logits, made.field.logits)
    np.testing.assert_array_equal(found.groups["even"], made.groups["even"])
    assert found.masked is None


@pytest.mark.parametrize("design", [Uncertainty(), Density(), Disagreement()])
def test_choosers_ask_each_item_once_and_repeat(design):
    pool = make_case(80).pool
    labels = make_case(80).labels
    orders = []
    for _ in range(2):
        cal = OperationalCalibrator("paper", design, audit=0).begin(pool, budget=30)
        while len(i := cal.ask(5)):
            cal.tell(i, labels=labels[i])
        orders.append(cal.answers_.positions.tolist())
    assert orders[0] == orders[1]
    assert len(set(orders[0])) == 30


def test_uncertainty_asks_where_the_posterior_is_widest():
    pool, labels = make_case(60).pool, make_case(60).labels
    cal = OperationalCalibrator("paper", Uncertainty(), audit=0).fit(pool, [0, 1, 2], labels=labels[:3])
    sd = cal.posterior(pool).sd
    sd[:3] = -1
    assert cal.ask(1)[0] == sd.argmax()


def test_scores_are_the_metrics_by_definition():
    rng = np.random.default_rng(0)
    c, right = rng.random(300), rng.random(300) < 0.6
    found = scores(c, right)
    assert found["brier"] == pytest.approx(((c - right) ** 2).mean())
    level, u = 0.9, 9.0
    gain = np.where(c >= level, np.where(right, 1, -u), 0)
    assert found["lce"][LAMBDAS.index(level)] == pytest.approx(right.mean() - gain.mean())
    assert found["confident 0.9"]["false"] == int(((c >= 0.9) & ~right).sum())
    assert found["confident 0.9"]["lce scaled"] == pytest.approx(0.1 * found["confident 0.9"]["lce"])
    assert counts_of(100, (0.01, 0.05, 0.5, 1.0)) == [8, 50, 100]


def test_means_carry_standard_errors_and_paths_that_are_missing_are_empty():
    runs = Runs(
        {"task": "1", "stage": "few", "seed": s, "figures": {"a": [{"b": v}]}} for s, v in enumerate((1.0, 3.0))
    )
    cell = runs.cell("1", "few", "a", 0, "b")
    assert (cell.mean, cell.error, cell.n) == (2.0, 1.0, 2)
    assert runs.cell("1", "few", "a", 1, "b") is None
    assert runs.cell("1", "few", "x") is None


def test_markdown_becomes_a_page_without_letting_text_in_as_markup():
    page = html(["# A <b>", "", *table(["x"], [["**1** & `2`"]]), "- item", "![a & b](figures/f.png)"])
    assert "<h1>A &lt;b&gt;</h1>" in page
    assert "<td><b>1</b> &amp; <code>2</code></td>" in page
    assert 'src="figures/f.png"' in page


def test_cifar_binaries_are_read_channel_first(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8), np.array([3, 1, 4, 1, 5], np.uint8)
    flat = images.transpose(0, 3, 1, 2).reshape(5, -1)
    np.column_stack([labels, flat]).astype(np.uint8).tofile(tmp_path / "ten.bin")
    np.column_stack([labels * 0, labels, flat]).astype(np.uint8).tofile(tmp_path / "hundred.bin")
    for name, classes in (("ten", 10), ("hundred", 100)):
        x, y = layouts.cifar_binary([tmp_path / f"{name}.bin"], classes)
        np.testing.assert_array_equal(x, images)
        np.testing.assert_array_equal(y, labels)
    with pytest.raises(InvalidInput, match="records of 3074"):
        layouts.cifar_binary([tmp_path / "ten.bin"], 100)


def test_stl_binaries_are_column_major_and_labelled_from_one(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (4, 96, 96, 3), dtype=np.uint8)
    images.transpose(0, 3, 2, 1).tofile(tmp_path / "train_X.bin")
    np.array([1, 10, 3, 2], np.uint8).tofile(tmp_path / "train_y.bin")
    x, y = layouts.stl_binary(tmp_path, "train")
    np.testing.assert_array_equal(x, images)
    assert y.tolist() == [0, 9, 2, 1]
    with pytest.raises(PoolError, match="test_X"):
        layouts.stl_binary(tmp_path, "test")


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_idx_files_are_read_packed_or_not(tmp_path, packed):
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    contents = {
        "train-images-idx3-ubyte": struct.pack(">BBBB3I", 0, 0, 8, 3, 3, 28, 28) + images.tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">BBBBI", 0, 0, 8, 1, 3) + bytes([7, 0, 9]),
    }
    for name, content in contents.items():
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(content) if packed else content)
    x, y = layouts.mnist_idx(tmp_path, "train")
    np.testing.assert_array_equal(x, images)
    assert y.tolist() == [7, 0, 9]
    assert layouts.digits_16(x).shape == (3, 16, 16)


def test_usps_h5_holds_both_parts(tmp_path):
    h5py = pytest.importorskip("h5py")
    data = np.random.default_rng(0).random((3, 256))
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        for name in ("train", "test"):
            file[f"{name}/data"], file[f"{name}/target"] = data, np.arange(3)
    x, y = layouts.usps_h5(tmp_path / "usps.h5")
    np.testing.assert_array_equal(x[:3], np.round(255 * data).reshape(3, 16, 16))
    assert y.tolist() == [0, 1, 2, 0, 1, 2]


def test_image_folders_are_cropped_to_their_centre_in_order_of_class(tmp_path):
    for name, value in (("cat", 10), ("ant", 200)):
        (tmp_path / name).mkdir()
        picture = np.zeros((60, 80, 3), np.uint8)
        picture[:, 20:60] = value
        Image.fromarray(picture).save(tmp_path / name / "1.png")
        (tmp_path / name / "notes.txt").write_text("no picture")
    x, y, classes = layouts.image_folder(tmp_path, 32)
    assert classes == ["ant", "cat"]
    assert x.shape == (2, 32, 32, 3)
    assert (x[0, 8:24, 8:24] == 200).all()
    assert y.tolist() == [0, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no pictures"):
        layouts.image_folder(tmp_path / "empty")


def test_polarity_folders_tell_the_page_of_each_review(tmp_path):
    for label, name in (("neg", "cv000_tok-9611.txt"), ("pos", "cv001_29416.txt")):
        (tmp_path / label).mkdir()
        (tmp_path / label / name).write_text("a film", encoding="utf-8")
    texts, labels, pages = layouts.polarity(tmp_path)
    assert (texts, labels.tolist(), pages.tolist()) == (["a film"] * 2, [0, 1], [9611, 29416])


def test_words_are_numbered_by_frequency_and_long_reviews_keep_both_ends():
    known = reviews.vocabulary(["Film film film film! plot plot plot", "rare"])
    assert known == {"film": 2, "plot": 3}
    got = reviews.tokens(["film rare plot plot film"], known, 4)
    assert got.tolist() == [[2, 1, 3, 2]]
    assert reviews.bags(["plot plot rare"], known).tolist() == [[0, 0, 0, 1]]
