"""Networks: full sizes are those published, training repeats to the byte and goes on where it was stopped."""

from __future__ import annotations

import gc
import struct

import numpy as np
import pytest
from click.testing import CliRunner
from experiments.made_data import patterns
from PIL import Image

torch = pytest.importorskip("torch")

from opcal import metrics  # noqa: E402
from opcal.cli import main  # noqa: E402
from opcal.errors import InvalidInput  # noqa: E402
from opcal.experiments import layouts, store, tasks  # noqa: E402
from opcal.experiments.methods import METHODS  # noqa: E402
from opcal.experiments.nets import inception, lenet, network, residual, text, training, vgg  # noqa: E402
from opcal.experiments.nets.model import TorchModel, restored, trained  # noqa: E402
from opcal.experiments.settings import Settings, quick  # noqa: E402
from opcal.experiments.stages.context import Context, make_model, weights_path  # noqa: E402
from opcal.experiments.tasks import pictures  # noqa: E402
from opcal.experiments.tasks.base import Examples  # noqa: E402

pytestmark = pytest.mark.paper
IMAGES, LABELS = patterns(np.random.default_rng(0), 60, 10, (16, 16), 0.2)
DIGITS = Examples(IMAGES, LABELS.astype(int))
RECIPE = training.Recipe(4, batch=8, augment=training.shifted)


def count(make) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters())


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda: residual.resnet18(1000, tiny_images=False), 11_689_512),
        (lambda: residual.resnet50(1000), 25_557_032),
        (vgg.vgg19_imagenet, 143_667_240),
        (inception.InceptionV3, 23_834_568),
        # 6 and 16 maps of 5×5, then 120, 84, 10, at 28×28 with LeCun's 32×32 margin left to the padding.
        (lambda: lenet.LeNet5(side=28), 61_706),
    ],
)
def test_full_networks_have_the_published_numbers_of_parameters(make, parameters):
    assert count(make) == parameters


def test_names_are_those_of_the_usual_weights():
    with torch.device("meta"):
        fifty, three, nineteen = residual.resnet50(1000), inception.InceptionV3(), vgg.vgg19_imagenet()
    for made, names in (
        (fifty, ("layer1.0.downsample.0.weight", "layer4.2.conv3.weight", "bn1.running_mean", "fc.bias")),
        (
            three,
            ("Conv2d_1a_3x3.conv.weight", "Mixed_6e.branch7x7dbl_5.bn.weight", "Mixed_7c.branch3x3dbl_3b.conv.weight"),
        ),
        (nineteen, ("features.34.bias", "classifier.6.weight")),
    ):
        assert set(names) <= set(made.state_dict())


@pytest.mark.parametrize(
    ("make", "shape", "width"),
    [
        (lenet.LeNet5, (2, 1, 16, 16), 84),
        (residual.resnet18, (2, 3, 32, 32), 512),
        (vgg.vgg19, (2, 3, 32, 32), 512),
        (residual.resnet50, (2, 3, 64, 64), 2048),
        (lambda: inception.InceptionV3(12), (2, 3, 96, 96), 2048),
        (residual.SmallResNet, (2, 3, 32, 32), 64),
        (vgg.small_vgg, (2, 3, 32, 32), 256),
        (lambda: text.Recurrent(50, width=20, state=16), (2, 30), 256),
        (lambda: text.SmallRecurrent(50), (2, 30), 64),
        (lambda: text.BagOfWords(50), (2, 50), 128),
    ],
)
def test_one_forward_pass_and_one_step_lower_the_loss(make, shape, width):
    torch.manual_seed(0)
    net = make()
    x = torch.randint(1, 50, shape) if len(shape) == 2 and not isinstance(net, text.BagOfWords) else torch.rand(shape)
    y = torch.tensor([0, 1])
    net.eval()
    z = net.represent(x)
    assert z.shape == (2, width)
    torch.testing.assert_close(net(x), net.last(z))
    loss = lambda: torch.nn.functional.cross_entropy(net(x), y)  # noqa: E731
    before = loss()
    before.backward()
    with torch.no_grad():
        # A step short enough for any of them, down the gradient.
        norm = sum(float((p.grad**2).sum()) for p in net.parameters() if p.grad is not None)
        for p in net.parameters():
            if p.grad is not None:
                p.sub_(1e-3 * float(before) / norm * p.grad)
    assert loss() < before
    gc.collect()


def outputs(model: TorchModel) -> np.ndarray:
    return model.outputs(IMAGES)[1]


def test_training_repeats_to_the_byte_and_other_seeds_differ(tmp_path):
    made = [
        trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, seed, tmp_path / f"{i}.weights")
        for i, seed in enumerate((3, 3, 4))
    ]
    np.testing.assert_array_equal(outputs(made[0]), outputs(made[1]))
    assert not np.array_equal(outputs(made[0]), outputs(made[2]))
    again = restored(lenet.LeNet5, network.image_tensor, RECIPE, tmp_path / "0.weights")
    np.testing.assert_array_equal(outputs(again), outputs(made[0]))


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    whole = trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, 3, tmp_path / "whole.weights")
    real = training.run_epoch

    def stopped(*arguments):
        if arguments[-1] == 2:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(training, "run_epoch", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, 3, tmp_path / "half.weights")
    assert (tmp_path / "half.checkpoint").exists()
    epochs = []
    monkeypatch.setattr(training, "run_epoch", lambda *a: (epochs.append(a[-1]), real(*a)))
    half = trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, 3, tmp_path / "half.weights")
    assert epochs == [2, 3]
    np.testing.assert_array_equal(outputs(half), outputs(whole))
    assert not (tmp_path / "half.checkpoint").exists()


def test_a_broken_checkpoint_is_as_good_as_none(tmp_path):
    (tmp_path / "b.checkpoint").write_bytes(b"broken")
    model = trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, 3, tmp_path / "b.weights")
    clean = trained(lenet.LeNet5, network.image_tensor, RECIPE, DIGITS, 3, tmp_path / "c.weights")
    np.testing.assert_array_equal(outputs(model), outputs(clean))


def test_fine_tuning_copies_the_network_and_moves_what_was_asked(tmp_path):
    # Made digits are noise in each pixel: shifted, they are others.
    still = training.Recipe(4, batch=8)
    model = trained(lenet.LeNet5, network.image_tensor, still, DIGITS, 3, tmp_path / "w.weights")
    before = outputs(model)
    last = model.fine_tuned(DIGITS, 0, whole=False, quick=True)
    everything = model.fine_tuned(DIGITS, 0, whole=True, quick=False)
    np.testing.assert_array_equal(outputs(model), before)
    assert (outputs(last).argmax(1) == LABELS).mean() >= (before.argmax(1) == LABELS).mean()
    np.testing.assert_array_equal(last.outputs(IMAGES)[0], model.outputs(IMAGES)[0])
    assert not np.array_equal(everything.outputs(IMAGES)[0], model.outputs(IMAGES)[0])
    assert (outputs(everything).argmax(1) == LABELS).mean() > (before.argmax(1) == LABELS).mean()


def test_dropout_averages_passes_and_networks_without_it_have_none():
    model = TorchModel(text.BagOfWords(20), network.count_tensor, RECIPE)
    counts = np.random.default_rng(0).integers(0, 2, (30, 20)).astype(np.uint8)
    one, many = (model.with_dropout(counts, passes, 0) for passes in (1, 200))
    np.testing.assert_array_equal(model.with_dropout(counts, 1, 0), one)
    assert np.abs(many - 0.5).mean() < np.abs(one - 0.5).mean()
    assert TorchModel(lenet.LeNet5(), network.image_tensor, RECIPE).with_dropout(IMAGES, 2, 0) is None


def test_augmented_images_are_shifts_and_mirrors_of_themselves():
    x = torch.arange(2 * 8 * 8, dtype=torch.float32).reshape(2, 1, 8, 8)
    moved = training.shifted_and_flipped(x, torch.Generator().manual_seed(0))
    for image, original in zip(moved, x, strict=True):
        inner = {float(v) for v in original.flatten()}
        assert {float(v) for v in image.flatten()} <= inner
    dropped = training.words_dropped(torch.tensor([[5, 6, 0, 0] * 50]), torch.Generator().manual_seed(0))
    assert set(dropped.flatten().tolist()) == {0, 1, 5, 6}


@pytest.mark.parametrize("name", ["1", "2", "2b", "3", "4"])
def test_every_trained_task_runs_from_data_to_tables(made, tmp_path, name, monkeypatch):
    monkeypatch.setattr(f"opcal.experiments.tasks.{tasks.HOME[name]}.EPOCHS", 2)
    asked = ["paper", "--quick", "--data", str(made), "--out", str(tmp_path), "--workers", "1", "--task", name[0]]
    monkeypatch.setattr(tasks, "HOME", {name: tasks.HOME[name]})
    found = CliRunner().invoke(main, [*asked, "--splits", "1", "--repeats", "1"])
    assert found.exit_code == 0, found.output
    runs = {r["stage"]: r["figures"] for r in store.all_runs(tmp_path)}
    assert set(runs["finetune"]["tuned"]) == {"last layer", "whole network", "then calibrated"}
    assert bool(runs["systematic"]) == (name in "134")
    assert ("brier, not in v1.0" in runs["efficacy"]["methods"]["auto"]) == (name[0] == "2")
    assert ("MC-dropout" in runs["efficacy"]["methods"]) == (name in ("2", "2b", "4"))


@pytest.mark.shared
def test_task_1_is_as_accurate_as_the_papers_and_its_method_reaches_its_brier_score(shared, tmp_path):
    settings = quick(shared / "data", tmp_path)
    make_model(settings, tasks.task("1"), 0)
    assert weights_path(settings, tasks.task("1"), 0).exists()
    found = Context(Settings(shared / "data", tmp_path, models=1), tasks.task("1"), 0)
    assert 0.60 <= found.shift.field.correct.mean() <= 0.72
    briers = []
    for seed in range(3):
        split = Context(found.settings, found.task, seed).split
        confidence = METHODS["paper"](split, np.arange(len(split.here)))(split.unseen)
        briers.append(metrics.brier(confidence, split.unseen.correct))
    assert np.mean(briers) <= 0.125


def write_full(folder) -> None:
    """The original layouts with a few made items each."""
    rng = np.random.default_rng(0)
    h5py = pytest.importorskip("h5py")
    (folder / "mnist").mkdir(parents=True)
    for part, n in (("train", 40), ("t10k", 20)):
        images, labels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), (np.arange(n) % 10).astype(np.uint8)
        head = struct.pack(">BBBB3I", 0, 0, 8, 3, n, 28, 28)
        (folder / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">BBBBI", 0, 0, 8, 1, n) + labels.tobytes()
        )
    with h5py.File(folder / "usps.h5", "w") as file:
        for name in ("train", "test"):
            file[f"{name}/data"], file[f"{name}/target"] = rng.random((20, 256)), np.arange(20) % 10
    for d in "cp":
        for name in ("ant", "bee"):
            (folder / "imageclef" / d / name).mkdir(parents=True)
            for i in range(5):
                picture = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))
                picture.save(folder / "imageclef" / d / name / f"{i}.png")
                if d == "p":
                    (folder / "imagenet" / "val" / name).mkdir(parents=True, exist_ok=True)
                    picture.save(folder / "imagenet" / "val" / name / f"{i}.png")


def test_tasks_1_5_and_6_at_full_size_go_from_original_layouts_to_outputs(tmp_path, monkeypatch):
    write_full(tmp_path / "data")
    real = layouts.image_folder
    monkeypatch.setattr(layouts, "image_folder", lambda folder, side=80, most=None: real(folder, 80, most=most))
    monkeypatch.setattr(pictures, "recipe", lambda: training.Recipe(1, batch=4))
    settings = Settings(tmp_path / "data", tmp_path / "out", size="full", models=1)
    (tmp_path / "data" / "weights").mkdir()
    torch.manual_seed(0)
    torch.save(inception.InceptionV3(2).state_dict(), tmp_path / "data" / "weights" / "inception_v3.pth")
    for name, width, classes in (("1", 84, 10), ("5", 2048, 2), ("6", 2048, 2)):
        make_model(settings, tasks.task(name), 0)
        shift = Context(settings, tasks.task(name), 0).shift
        assert shift.field.features.shape[1] == width
        assert shift.field.logits.shape[1] == classes
        model = Context(settings, tasks.task(name), 0).model
        inputs = tasks.task(name).data(settings).field.inputs
        np.testing.assert_allclose(model.outputs(inputs)[1], shift.field.logits, rtol=1e-4, atol=1e-4)


def test_weights_of_another_network_are_refused():
    small = residual.SmallResNet(4)
    with pytest.raises(InvalidInput, match="are they this network's"):
        pictures.with_weights(small, lenet.LeNet5().state_dict(), but_last=True)
    known = residual.SmallResNet(7).state_dict()
    loaded = pictures.with_weights(small, known, but_last=True)
    torch.testing.assert_close(loaded.conv1.weight, known["conv1.weight"])
