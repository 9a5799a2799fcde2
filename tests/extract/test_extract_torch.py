"""Torch modules, exported programs and TorchScript."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from extract_cases import differing, image_folder, rows

from opcal import errors
from opcal.extract import extract

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.extract
nn = torch.nn
X = np.random.default_rng(0).standard_normal((70, 3, 16, 16)).astype(np.float32)


class Network(nn.Module):
    """Two linear layers, so that the last must be told from the first; `end` is what comes after the logits."""

    def __init__(self, end=None, classes=5):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.middle, self.head, self.end = nn.Linear(8, 6), nn.Linear(6, classes), end
        self.drop = nn.Dropout(0.5)

    def features(self, x):
        return torch.relu(self.middle(torch.relu(self.norm(self.conv(x))).mean((2, 3))))

    def forward(self, x):
        h = self.head(self.drop(self.features(x)))
        return h if self.end is None else self.end(h)


def truth(model, x=X):
    model.eval()
    with torch.inference_mode():
        z = model.features(torch.from_numpy(x))
        return z.numpy(), model.head(z).numpy()


ENDS = {
    "logits": None,
    "softmax": lambda h: h.softmax(1),
    "log softmax": lambda h: h.log_softmax(1),
    "tuple": lambda h: (h, h * 2),
    "dict": lambda h: {"logits": h, "loss": None},
}


@pytest.mark.parametrize("end", ENDS)
def test_the_input_of_the_last_linear_layer_is_found_and_the_logits_before_any_softmax(tmp_path, end):
    model = Network(ENDS[end])
    z, h = truth(model)
    found = extract(model, X, out=tmp_path / "pool", batch_size=16)
    np.testing.assert_allclose(found.pool.features, z, atol=1e-6)
    np.testing.assert_allclose(found.pool.logits, h, atol=1e-6)
    assert "the input of head (Linear), 6 numbers" in found.representation
    np.testing.assert_allclose(found.pool.head.weight, model.head.weight.detach().numpy(), atol=1e-7)


@pytest.mark.parametrize("end", [None, torch.sigmoid, lambda h: h[:, 0]])
def test_one_score_becomes_two_classes(tmp_path, end):
    model = Network(end, classes=1)
    z, h = truth(model)
    pool = extract(model, X, out=tmp_path / "pool").pool
    np.testing.assert_allclose(pool.logits, np.column_stack([0 * h, h]), atol=1e-6)
    np.testing.assert_allclose(pool.features, z, atol=1e-6)
    assert pool.head is not None


def test_the_users_module_stays_as_it_was(tmp_path):
    model = Network().train()
    model.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    extract(model, X, out=tmp_path / "pool")
    extract(model, X, out=tmp_path / "pool", precision="bfloat16")
    assert model.training
    assert not model.norm.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not model.head._forward_hooks


def test_a_named_layer_is_taken_and_then_there_is_no_head(tmp_path):
    model = Network()
    with pytest.raises(errors.ModelError, match="name another with --layer"):
        extract(model, X, out=tmp_path / "pool", layer="middle")
    pool = extract(model, X, out=tmp_path / "pool", layer="middle", head=False).pool
    assert pool.features.shape == (70, 8)
    assert pool.head is None
    np.testing.assert_allclose(pool.logits, truth(model)[1], atol=1e-6)
    with pytest.raises(errors.ModelError, match=r"no layer 'midle'.*middle, head"):
        extract(model, X, out=tmp_path / "pool", layer="midle")


def test_what_cannot_be_is_told_with_a_remedy(tmp_path):
    pooled = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    scaled = Network(lambda h: torch.tanh(h) * 10)
    none = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for model, told in (
        (none, "no linear layer was found in Sequential.*--layer"),
        (scaled, "head\\(features\\) differs from the logits by .*--layer.*--no-head"),
        (pooled, "no linear layer was found"),
    ):
        with pytest.raises(errors.ModelError, match=told):
            extract(model, X, out=tmp_path / "pool")
    assert extract(scaled, X, out=tmp_path / "pool", head=False).pool.head is None
    with pytest.raises(errors.ModelError, match="cannot take the data as they come"):
        extract(Network(), rows(20), out=tmp_path / "other")
    with pytest.raises(errors.UnknownOption, match=r"'cuda', but torch .* sees no such device.*--device cpu"):
        extract(Network(), X, out=tmp_path / "other", device="cuda")
    with pytest.raises(errors.ModelError, match=r"3 class names .* has 5 outputs"):
        extract(Network(), X, out=tmp_path / "other", classes=["a", "b", "c"])
    assert not (tmp_path / "other").exists()


def test_bfloat16_says_how_far_it_drifts(tmp_path):
    found = extract(Network(), X, out=tmp_path / "pool", precision="bfloat16")
    assert "bfloat16 moves the features by" in found.notes[0]
    z, _ = truth(Network())
    gap = np.abs(found.pool.features - z).mean() / np.abs(z).mean()
    assert 1e-5 < gap < 0.02


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        if i == 33:
            raise OSError("broken")
        return torch.from_numpy(X[i]), i % 2


def test_data_sets_and_loaders_give_the_same_rows(tmp_path):
    whole = [(torch.from_numpy(x), 0) for x in X]
    pools = [
        extract(Network(), data, out=tmp_path / "pool", batch_size=8).pool.features
        for data in (X, torch.from_numpy(X), whole, iter(whole), torch.utils.data.DataLoader(whole, batch_size=8))
    ]
    for other in pools[1:]:
        np.testing.assert_array_equal(other, pools[0])
    with pytest.raises(errors.DataError, match="shuffle=False"):
        extract(Network(), torch.utils.data.DataLoader(whole, shuffle=True), out=tmp_path / "other")


def test_a_limit_cuts_a_loaders_batch(tmp_path):
    whole = [(torch.from_numpy(x), 0) for x in X]
    found = extract(Network(), torch.utils.data.DataLoader(whole, batch_size=8), out=tmp_path / "pool", limit=13)
    assert found.items == 13


def test_a_model_that_fails_on_a_later_batch_is_told_and_what_is_done_is_kept(tmp_path):
    class Failing(Network):
        def forward(self, x):
            if len(x) == 6:
                raise RuntimeError("can't allocate memory: you tried to allocate 99 bytes")
            return super().forward(x)

    with pytest.raises(errors.ModelError, match=r"no memory for a batch.*smaller --batch-size"):
        extract(Failing(), X, out=tmp_path / "pool", batch_size=8)
    with pytest.raises(errors.PoolError, match="holds 64 items"):
        extract(Failing(), X, out=tmp_path / "pool", batch_size=8)


def test_an_item_that_a_data_set_cannot_give_is_refused_or_skipped(tmp_path):
    with pytest.raises(errors.DataError, match=r"33: the data set raises OSError \(broken\)"):
        extract(Network(), Pictures(), out=tmp_path / "pool", batch_size=8)
    found = extract(Network(), Pictures(), out=tmp_path / "pool", batch_size=8, on_bad="skip", restart=True)
    assert found.pool.ids[32:34] == ["32", "34"]


def test_images_of_any_size_need_a_size(tmp_path):
    image_folder(tmp_path / "images", n=3)
    image_folder(tmp_path / "images" / "more", n=3, size=(20, 30))
    with pytest.raises(errors.DataError, match=r"differ in size.*--size"):
        extract(Network(), tmp_path / "images", out=tmp_path / "pool")
    found = extract(Network(), tmp_path / "images", out=tmp_path / "pool", size=16, mean=[0.5], std=[0.2, 0.2, 0.3])
    assert found.pool.ids[0] == "00.png"
    assert found.pool.ids[-1] == "more/02.png"


def test_a_transform_takes_the_place_of_size_and_mean(tmp_path):
    def transform(image):
        pixels = np.asarray(image.convert("RGB").resize((16, 16)), dtype=np.float32)
        return torch.from_numpy(pixels / 255).permute(2, 0, 1)

    folder = image_folder(tmp_path / "images", n=5)
    own = extract(Network(), folder, out=tmp_path / "own", transform=transform).pool
    assert np.isfinite(own.features).all()
    one = truth(Network(), transform(__import__("PIL.Image").Image.open(folder / "00.png"))[None].numpy())[0]
    np.testing.assert_allclose(own.features[:1], one, atol=1e-5)


def programs(model, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = torch.from_numpy(X[:4])
        any_batch = ({0: torch.export.Dim.AUTO},)
        traced, scripted = torch.jit.trace(model, some), torch.jit.script(model)
        torch.jit.save(traced, folder / "traced.pt")
        torch.jit.save(torch.jit.freeze(scripted), folder / "frozen.pt")
        exported = torch.export.export(model, (some,), dynamic_shapes=any_batch)
        torch.export.save(exported, folder / "exported.pt2")
        fixed = torch.export.export(model, (some,))
        lowered = fixed.run_decompositions()
    files = {name: str(folder / name) for name in ("traced.pt", "frozen.pt", "exported.pt2")}
    return files | {"traced": traced, "scripted": scripted, "exported": exported, "fixed": fixed, "lowered": lowered}


@pytest.mark.parametrize("end", [None, "softmax"])
def test_exported_programs_and_torchscript_give_what_the_module_gives(tmp_path, end):
    model = Network(nn.Softmax(1) if end else None).eval()
    z, h = truth(model)
    for name, program in programs(model, tmp_path).items():
        found = extract(program, X, out=tmp_path / f"pool-{name}", batch_size=16)
        np.testing.assert_allclose(found.pool.features, z, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(found.pool.logits, h, atol=1e-5, err_msg=name)
        assert found.pool.head is not None, name
        assert found.pool.model["hash"], name


def test_weights_without_code_are_refused_with_the_way_to_go(tmp_path):
    torch.save(Network().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(errors.ModelError, match=r"weights without the model's code.*file.py:function"):
        extract(str(tmp_path / "weights.pt"), X, out=tmp_path / "pool")


def test_a_stopped_run_of_a_module_is_resumed_to_the_same_bytes(tmp_path):
    class Breaking(torch.utils.data.Dataset):
        ready = False

        def __len__(self):
            return len(X)

        def __getitem__(self, i):
            if i == 50 and not self.ready:
                raise KeyboardInterrupt
            return torch.from_numpy(X[i])

    data = Breaking()
    with pytest.raises(KeyboardInterrupt):
        extract(Network(), data, out=tmp_path / "pool", batch_size=8)
    data.ready = True
    assert extract(Network(), data, out=tmp_path / "pool", batch_size=8, resume=True).resumed_at == 48
    extract(Network(), data, out=tmp_path / "whole", batch_size=8)
    assert differing(tmp_path / "whole", tmp_path / "pool") == []
    changed = Network()
    changed.head.bias.data += 1
    with pytest.raises(errors.PoolError, match="of another model"):
        extract(changed, data, out=tmp_path / "pool", batch_size=8, resume=True)
