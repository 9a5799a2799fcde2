"""A saved calibrator says the same to the bit, and a file that is not one is refused by name."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal import methods
from opcal.artifact import container, limits
from opcal.errors import ArtifactError, IncompatiblePool, InvalidArray, InvalidInput, NotBegun

CASE, NEW = make_case(n=160), make_case(n=90, seed=0)
METHODS = {
    "auto": "auto",
    "paper": "paper",
    "correctness": methods.Correctness(),
    "temperature": methods.Temperature(),
    "residual": methods.Residual(),
}


def fitted(method="auto", pool=None, answers=30):
    pool = CASE.pool if pool is None else pool
    calibrator = opcal.OperationalCalibrator(method).begin(pool, budget=answers)
    while len(i := calibrator.ask(10)):
        if len(calibrator.answers_) < 10:
            calibrator.tell(i, correct=CASE.labels[i] == pool.predicted[i])
        else:
            calibrator.tell(i, labels=CASE.labels[i], weight=0.5)
    return calibrator


def without_logits():
    full = CASE.pool
    return opcal.Pool.from_arrays(CASE.features, confidence=full.confidence, predicted=full.predicted)


@pytest.fixture
def saved(tmp_path):
    return fitted("paper").save(tmp_path / "x.opcal")


@pytest.mark.parametrize("wide", [np.float64, np.float32])
@pytest.mark.parametrize("name", METHODS)
def test_a_loaded_artefact_says_the_same_to_the_bit(name, wide, tmp_path):
    pool = opcal.Pool.from_arrays(CASE.features.astype(wide), CASE.logits.astype(wide))
    calibrator = fitted(METHODS[name], pool)
    new = opcal.Pool.from_arrays(NEW.features.astype(wide), NEW.logits.astype(wide))
    loaded = opcal.load(calibrator.save(tmp_path / "x.opcal"))
    mine, theirs = calibrator.posterior(new), loaded.posterior(new)
    for f in ("mean", "sd"):
        np.testing.assert_array_equal(getattr(mine, f), getattr(theirs, f))
    np.testing.assert_array_equal(mine.above(0.8), theirs.above(0.8))
    np.testing.assert_array_equal(loaded.confidence(new), mine.mean)
    np.testing.assert_array_equal(mine.sample(4), theirs.sample(4))
    assert (loaded.manifest.method, loaded.manifest.fitted["answers"]) == (name, 30)
    one = loaded.confidence_one(new.features[7], new.logits[7])
    assert one == pytest.approx(mine.mean[7], abs=1e-6)
    assert calibrator.confidence_one(new.features[7], new.logits[7]) == pytest.approx(one, abs=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_pools_without_logits_and_calibrators_without_answers_are_saved_too(name, tmp_path):
    pool = without_logits()
    calibrator = opcal.OperationalCalibrator(METHODS[name]).begin(pool)
    loaded = opcal.load(calibrator.save(tmp_path / "x.opcal"))
    np.testing.assert_array_equal(loaded.confidence(pool), calibrator.confidence(pool))
    one = loaded.confidence_one(pool.features[3], confidence=pool.confidence[3], predicted=pool.predicted[3])
    assert one == pytest.approx(calibrator.confidence(pool)[3], abs=1e-6)
    with pytest.raises(InvalidInput, match="no logits"):
        loaded.confidence_one(pool.features[3], CASE.logits[3])


def test_what_does_not_fit_the_model_is_refused(saved):
    loaded = opcal.load(saved)
    with pytest.raises(IncompatiblePool, match="7 features"):
        loaded.confidence(opcal.Pool.from_arrays(np.ones((3, 7)), np.eye(3, 4) * 9))
    with pytest.raises(InvalidArray, match="expected 6 numbers"):
        loaded.confidence_one(np.ones(5), np.zeros(4))
    with pytest.raises(InvalidArray, match="NaN"):
        loaded.confidence_one(np.full(6, np.nan), np.zeros(4))
    with pytest.raises(InvalidInput, match="logits is missing"):
        loaded.confidence_one(np.ones(6))
    with pytest.raises(NotBegun):
        opcal.OperationalCalibrator().save("x.opcal")
    with pytest.raises(InvalidInput, match="folder"):
        fitted("paper").save(saved.parent)


def test_a_method_of_your_own_is_refused_by_name(tmp_path):
    class Own:
        def begin(self, field):
            return self

        def tell(self, answers):
            pass

    calibrator = opcal.OperationalCalibrator(Own(), "random").begin(CASE.pool)
    with pytest.raises(ArtifactError, match="Own cannot be saved"):
        calibrator.save(tmp_path / "x.opcal")
    assert not list(tmp_path.iterdir())


def leaves(tree, path=()):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    yield path
    for key, value in items:
        yield from leaves(value, (*path, key))


STRANGE = [None, -1, 0, 10**9, 10**30, 0.5, -1e308, 1e308, "auto", "os.system", [], {}, True, [[]], {"kind": "Fit"}]


@pytest.mark.parametrize("name", METHODS)
def test_descriptions_written_by_a_stranger_who_knows_the_hashes_are_refused_or_harmless(name, tmp_path):
    """Every hash is made anew, so only the description itself can be found wrong."""
    path, rng = fitted(METHODS[name]).save(tmp_path / "x.opcal"), random.Random(1)
    contents = container.read(path)
    for _ in range(150):
        manifest = json.loads(json.dumps(contents.manifest))
        where = rng.choice([p for p in leaves(manifest) if p])
        inner = manifest
        for key in where[:-1]:
            inner = inner[key]
        inner[where[-1]] = rng.choice(STRANGE)
        container.write(path, manifest, contents.arrays)
        try:
            found = opcal.load(path).scorer.predict(CASE.pool.outputs)
        except ArtifactError:
            continue
        except (ValueError, IndexError, RuntimeWarning):
            pytest.fail(f"{where} gave an artefact that loads and fails")
        assert ((found.mean >= 0) & (found.mean <= 1)).all()


def test_arrays_of_other_shapes_are_refused(tmp_path):
    path = fitted("auto").save(tmp_path / "x.opcal")
    contents, refused = container.read(path), 0
    for name, array in contents.arrays.items():
        if array.size > 1:
            container.write(path, contents.manifest, contents.arrays | {name: array[..., :-1]})
            try:
                opcal.load(path)
            except ArtifactError:
                refused += 1
    assert refused >= len(contents.arrays) - 3  # a prototype's subspace and the like may be of any size


def packed_anew(saved, **options):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


LOSSES = {c: i / 4 for i, c in enumerate("1234", 1)}
OFFER = {"gain": 1, "loss": LOSSES, "actions": {"person": {"cost": 0.6}, "no": {"gain": 0}}}


def with_matrix(path, pool=CASE.pool, matrix=OFFER, **capacities):
    names = list("1234")
    costs = opcal.costs.from_dict(matrix | capacities, names)
    calibrator = opcal.OperationalCalibrator("paper", costs=costs).fit(pool, range(60), labels=CASE.labels[:60])
    return costs, calibrator.save(path)


def test_a_cost_matrix_is_stored_and_decides_as_the_calibrators_own(tmp_path):
    costs, path = with_matrix(tmp_path / "x.opcal", capacity=25)
    loaded = opcal.load(path)
    np.testing.assert_array_equal(loaded.costs_.gains, costs.gains)
    assert (loaded.costs_.names, loaded.costs_.capacities) == (("act", "person", "no"), (25, None, None))
    assert loaded.threshold_ == costs.threshold
    expected = opcal.costs.decisions(costs, CASE.pool, loaded.judged(CASE.pool.outputs).confidence)
    found = loaded.decisions(CASE.pool)
    np.testing.assert_array_equal(found.action, expected.action)
    assert found.counts["act"] == 25
    assert len(set(found.action.tolist())) > 1
    np.testing.assert_array_equal(loaded.decisions(CASE.pool, 1.0).expected > 0, loaded.confidence(CASE.pool) > 0.5)


def test_an_artefact_without_a_matrix_decides_by_its_loss_or_its_threshold(tmp_path):
    for options, u in (({"costs": 4.0}, 4.0), ({"threshold": 0.75}, 3.0), ({"threshold": 1.0}, None)):
        calibrator = opcal.OperationalCalibrator("paper", **options).fit(CASE.pool, range(60), labels=CASE.labels[:60])
        loaded = opcal.load(calibrator.save(tmp_path / "x.opcal"))
        assert loaded.gains is None
        found = loaded.decisions(CASE.pool)
        if u is None:
            assert found.counts == {"act": 0, "reject": 160}
        else:
            sure = loaded.judged(CASE.pool.outputs).confidence >= u / (1 + u)
            np.testing.assert_array_equal(found.action == 0, sure)


def test_a_matrix_goes_with_a_pool_without_logits_and_is_refused_where_its_classes_are_others(tmp_path):
    _, path = with_matrix(tmp_path / "x.opcal", without_logits())
    some = without_logits().take(np.flatnonzero(without_logits().predicted == 0)[:3])
    assert len(opcal.load(path).decisions(some).action) == 3
    three = opcal.costs.from_dict({"loss": 2}, list("abc"))
    calibrator = opcal.OperationalCalibrator("paper", costs=three).begin(CASE.pool)
    with pytest.raises(opcal.errors.InvalidCosts, match="3 classes"):
        calibrator.save(tmp_path / "y.opcal")


@pytest.mark.parametrize(
    "changed",
    [
        *({"names": ["one"]}, {"names": [1, 2]}, {"capacities": [None, None]}, {"capacities": [None, -1, None]}),
        *({"values": {"array": "none"}}, {"values": 3}, {"kind": "Fit"}, {"capacities": [0.5, None, None]}),
    ],
)
def test_costs_that_do_not_hold_together_are_refused(changed, tmp_path):
    _, path = with_matrix(tmp_path / "x.opcal")
    contents = container.read(path)
    changed = contents.manifest | {"gains": contents.manifest["gains"] | changed}
    container.write(path, changed, contents.arrays)
    with pytest.raises(ArtifactError):
        opcal.load(path)
    container.write(path, contents.manifest | {"costs": 2.0}, contents.arrays)
    with pytest.raises(ArtifactError):
        opcal.load(path)


@pytest.mark.parametrize("wrong", [np.full((3, 4, 5), 1e300), np.ones((3, 5, 6)), np.ones((3, 4, 4)), np.ones((3, 4))])
def test_gains_of_a_wrong_size_are_refused(wrong, tmp_path):
    _, path = with_matrix(tmp_path / "x.opcal")
    contents = container.read(path)
    name = contents.manifest["gains"]["values"]["array"]
    container.write(path, contents.manifest, contents.arrays | {name: wrong})
    with pytest.raises(ArtifactError):
        opcal.load(path)


def test_bombs_pickles_and_other_zips_are_refused_before_they_are_unpacked(saved, tmp_path):
    packed_anew(saved, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ArtifactError, match="packed anew"):
        opcal.load(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"{}")
        archive.writestr("model.safetensors", b"\0" * 10**8)
    with pytest.raises(ArtifactError, match="packed anew"):
        opcal.load(saved)
    np.savez(tmp_path / "y.npz", a=np.array([{}], dtype=object))
    for file in (tmp_path / "y.npz", Path(__file__), tmp_path, tmp_path / "missing.opcal"):
        with pytest.raises(ArtifactError, match=file.name):
            opcal.load(file)
    with (tmp_path / "huge.opcal").open("wb") as file:
        file.truncate(2 * limits.LARGEST)
    with pytest.raises(ArtifactError, match="at most"):
        opcal.load(tmp_path / "huge.opcal")


def test_loading_imports_nothing_that_the_file_names(tmp_path):
    path = fitted("paper").save(tmp_path / "x.opcal")
    contents = container.read(path)
    manifest = contents.manifest | {"scorer": contents.manifest["scorer"] | {"kind": "antigravity.Scorer"}}
    container.write(path, manifest, contents.arrays)
    code = f"import sys, opcal\ntry: opcal.load({str(path)!r})\nexcept opcal.errors.ArtifactError: pass\n"
    code += "print('antigravity' in sys.modules, 'pickle' in str(sys.modules.get('opcal.artifact.container').__dict__))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_a_newer_version_says_that_a_newer_opcal_is_needed(saved):
    contents = container.read(saved)
    container.write(saved, contents.manifest | {"version": 99}, contents.arrays)
    with pytest.raises(ArtifactError, match="use a newer opcal"):
        opcal.load(saved)


def test_the_first_versions_files_stay_readable():
    """Written by opcal 0.1.0; the figures are those that it gave."""
    folder = Path(__file__).parent / "versions"
    for file in sorted(folder.glob("*.opcal")):
        expected = json.loads(file.with_suffix(".json").read_text())
        loaded = opcal.load(file)
        np.testing.assert_allclose(loaded.confidence(NEW.pool)[:20], expected, rtol=0, atol=1e-9)
        assert set(loaded.decisions(NEW.pool).names) == {"act", "reject"}
    assert len(list(folder.glob("v1-*.opcal"))) == 2


def pem(tmp_path, name):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as s

    key, file = ed25519.Ed25519PrivateKey.generate(), tmp_path / f"{name}.pem"
    file.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
    public = tmp_path / f"{name}.pub"
    public.write_bytes(key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
    return file, public


def test_a_signature_holds_for_its_key_and_for_nothing_else(tmp_path):
    (mine, my_public), (_, other_public) = pem(tmp_path, "mine"), pem(tmp_path, "other")
    path = fitted("paper").save(tmp_path / "x.opcal", key=mine)
    assert opcal.load(path, trusted=my_public).signer == opcal.load(path).signer
    with pytest.raises(ArtifactError, match="another key"):
        opcal.load(path, trusted=other_public)
    contents = container.read(path)
    forged = container._members(path)
    forged["manifest.json"] = json.dumps(contents.manifest | {"threshold": 0.1}, indent=1, sort_keys=True).encode()
    path.write_bytes(container._packed(forged).getvalue())
    with pytest.raises(ArtifactError, match="does not fit its contents"):
        opcal.load(path)
    unsigned = fitted("paper").save(tmp_path / "y.opcal")
    with pytest.raises(ArtifactError, match="not signed"):
        opcal.load(unsigned, trusted=my_public)
    with pytest.raises(InvalidInput, match="no PEM"):
        fitted("paper").save(tmp_path / "y.opcal", key=my_public)


SAVER = """
import sys
from pathlib import Path
from opcal.artifact import container
out, a, b = sys.argv[1], container.read(Path(sys.argv[2])), container.read(Path(sys.argv[3]))
print("ready", flush=True)
while True:
    for c in (a, b):
        container.write(Path(out), c.manifest, c.arrays)
"""


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.crash)])
def test_a_killed_saving_leaves_the_old_file_or_the_new(times, tmp_path):
    a, b = fitted("paper", answers=20).save(tmp_path / "a"), fitted("paper").save(tmp_path / "b")
    out, known = tmp_path / "folder" / "x.opcal", {opcal.load(a).digest, opcal.load(b).digest}
    rng, seen = random.Random(0), set()
    for _ in range(times):
        command = [sys.executable, "-c", SAVER, str(out), str(a), str(b)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
            saver.stdout.readline()
            while not out.exists():
                time.sleep(0.001)
            time.sleep(rng.random() * 0.02)
            os.kill(saver.pid, signal.SIGKILL)
        seen.add(opcal.load(out).digest)
    assert seen <= known
    container.write(out, container.read(a).manifest, container.read(a).arrays)
    assert [file.name for file in out.parent.iterdir()] == ["x.opcal"]
