"""Ray: the same bytes as one process, and the errors as they are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import make_case
from extract_cases import WEIGHT, differing, image_folder, rows

import opcal
from opcal import errors
from opcal.artifact import scoring
from opcal.cli import main
from opcal.extract import extract
from opcal.extract.engines import run_parts
from opcal.extract.partitions import parts
from opcal.pool import streaming

ray = pytest.importorskip("ray")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.extract


@pytest.fixture(scope="module", autouse=True)
def one_cluster(tmp_path_factory):
    """Started once: a cluster takes seconds."""
    from opcal.extract import cluster

    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")
    cluster.begin(None, 2, threads=1)
    yield
    cluster.end(True)
    patch.undo()


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


FUNCTION = f"""
import numpy as np
W = np.array({WEIGHT.tolist()}, dtype=np.float32)
def network(batch):
    z = np.asarray(batch, dtype=np.float32).reshape(len(batch), -1)[:, :4]
    return z, z @ W.T
def first_pixels(image):
    return np.asarray(image, dtype=np.float32)[0, :6, 0] / 255
"""


def same(folder, model, data, **options):
    extract(model, data, out=folder / "one", batch_size=16, **options)
    found = extract(model, data, out=folder / "two", batch_size=16, engine="ray", workers=2, **options)
    assert differing(folder / "one", folder / "two") == []
    return found


def test_a_torch_module_and_an_array(tmp_path):
    assert same(tmp_path, module(), rows(1000)).items == 1000


def test_partitioned_parquet_is_read_and_every_column_kept(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        table = pa.table({"id": [f"{i}-{j}" for j in range(100)], "x": list(rows(100, seed=i)), "ward": [i] * 100})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=30)
    found = same(tmp_path, module(), folder)
    assert found.pool.columns["ward"] == [0] * 100 + [1] * 100 + [2] * 100


def test_images_that_are_broken_are_left_out_alike(tmp_path):
    folder = image_folder(tmp_path / "images", n=60, broken=[0, 17, 59])
    (tmp_path / "model.py").write_text(FUNCTION)
    found = same(tmp_path, f"{tmp_path}/model.py:network", folder, on_bad="skip",
                 transform=f"{tmp_path}/model.py:first_pixels", partitions=5)  # fmt: skip
    assert [item.id for item in found.skipped] == ["00.png", "17.png", "59.png"]
    with pytest.raises(errors.DataError, match=r"00\.png|17\.png"):
        extract(f"{tmp_path}/model.py:network", folder, out=tmp_path / "three", engine="ray", workers=2,
                transform=f"{tmp_path}/model.py:first_pixels")  # fmt: skip


def test_a_run_stopped_in_the_middle_goes_on_with_the_parts_that_are_done(tmp_path):
    x = rows(400)
    x[391] = np.nan
    with pytest.raises(errors.InvalidArray, match="item 391"):
        extract(module(), x, out=tmp_path / "pool", batch_size=16, engine="ray", workers=2)
    with pytest.raises(errors.PoolError, match="--resume"):
        extract(module(), x, out=tmp_path / "pool", batch_size=16)
    mended = x.copy()
    mended[391] = 0
    assert extract(module(), mended, out=tmp_path / "pool", batch_size=16, resume=True).resumed_at >= 16
    extract(module(), mended, out=tmp_path / "one", batch_size=16)
    assert differing(tmp_path / "one", tmp_path / "pool") == []


def test_an_iterator_cannot_be_shared_out_and_is_told_so(tmp_path):
    with pytest.raises(errors.InvalidInput, match=r"cannot be read from any position.*--engine local"):
        extract(module(), iter(rows(20)), out=tmp_path / "pool", engine="ray")


def test_parts_are_whole_batches_and_cover_everything():
    for n, size, wanted in [(1000, 16, 4), (7, 16, 4), (1_000_000, 32, 8)]:
        found = parts(0, n, size, wanted)
        assert found[0][0] == 0
        assert found[-1][1] == n
        assert all(a % size == 0 for a, _ in found)
        assert all(b == a for (_, b), (a, _) in pairwise(found))


class Doubled:
    """A piece of work of another room: scoring will be one."""

    def __init__(self, by=2):
        self.by = by

    def __call__(self, part):
        if part == 13:
            raise errors.InvalidInput("thirteen")
        return part * self.by


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_any_work_runs_over_parts_in_their_order_and_errors_stay_themselves(engine):
    assert list(run_parts(Doubled, list(range(12)), engine=engine, workers=2)) == [2 * i for i in range(12)]
    with pytest.raises(errors.InvalidInput, match=r"^thirteen$"):
        list(run_parts(Doubled, [1, 13], engine=engine, workers=2))


@pytest.mark.parametrize("method", ["paper", "auto"])
def test_scoring_on_ray_writes_the_same_table_to_the_bit(method, tmp_path, monkeypatch):
    assert scoring.SHARE % streaming.ROWS == 0  # the same blocks, whoever computes them
    monkeypatch.setattr(scoring, "SHARE", streaming.ROWS)
    n = 2 * streaming.ROWS + 1000
    case = make_case(n=n)
    pool = opcal.Pool.from_arrays(case.features, case.logits, ids=[f"item {i}" for i in range(n)])
    pool.save(tmp_path / "pool")
    some = pool.take(np.arange(2000))
    artifact = opcal.OperationalCalibrator(method).fit(some, range(60), labels=case.labels[:60]).save(tmp_path / "a")
    for engine in ("here", "ray"):
        command = ["score", str(artifact), str(tmp_path / "pool"), "--out", str(tmp_path / engine), "--engine", engine]
        found = CliRunner().invoke(main, command)
        assert (found.exit_code, f"{n:,} rows" in found.output) == (0, True), found.output
    assert pq.read_table(tmp_path / "ray").equals(pq.read_table(tmp_path / "here"))
    assert ray.is_initialized()  # a cluster that was there before stays


def test_an_artefact_that_was_replaced_meanwhile_scores_nothing(tmp_path):
    case = make_case(n=60)
    case.pool.save(tmp_path / "pool")
    opcal.OperationalCalibrator("paper").begin(case.pool).save(tmp_path / "a")
    with pytest.raises(errors.ArtifactError, match="replaced while it scored"):
        scoring._piece(str(tmp_path / "a"), str(tmp_path / "pool"), "another", 0, 60)
