"""A trained network as the stages use it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from opcal.baselines.base import folds
from opcal.core.method import FloatArray
from opcal.experiments.linear import fine_tuned_head
from opcal.experiments.nets.network import Network
from opcal.experiments.nets.training import Recipe, run_epoch, train
from opcal.experiments.store import whole as written_whole
from opcal.experiments.tasks.base import Examples, Inputs

CHUNK = 256
TUNING_RATE, TUNING_DECAY, TUNING_BATCH = 1e-3, 1e-2, 32
TUNING_EPOCHS, QUICK_EPOCHS = 10, 2
LEAST_STEPS = 150
"""Few labels make an epoch of a step or two: then there are more epochs."""
HELD_OUT = 5


@dataclass(frozen=True)
class TorchModel:
    network: Network
    prepare: Callable[[Inputs], Tensor]
    recipe: Recipe

    @property
    def head(self) -> tuple[FloatArray, FloatArray]:
        return self.network.head

    @torch.inference_mode()
    def outputs(self, inputs: Inputs) -> tuple[FloatArray, FloatArray]:
        """One pass gives z and the logits."""
        self.network.eval()
        none = torch.empty(0, self.network.last.in_features, device=self.network.device)
        features = torch.cat([none, *(self.network.represent(batch) for batch in self._batches(inputs))])
        return features.cpu().numpy(), self.network.last(features).cpu().numpy()

    def _batches(self, inputs: Inputs) -> Iterator[Tensor]:
        for start in range(0, len(inputs), CHUNK):
            yield self.prepare(inputs[start : start + CHUNK]).to(self.network.device)

    @torch.inference_mode()
    def with_dropout(self, inputs: Inputs, passes: int, seed: int) -> FloatArray | None:
        dropping = [m for m in self.network.modules() if isinstance(m, nn.Dropout)]
        if not dropping:
            return None
        self.network.eval()
        predicted = torch.from_numpy(self.outputs(inputs)[1]).argmax(1)
        torch.manual_seed(seed)
        for module in dropping:
            module.train()
        total = torch.zeros(len(predicted), dtype=torch.float64)
        for _ in range(passes):
            logits = torch.cat([self.network(batch) for batch in self._batches(inputs)]).cpu()
            total += logits.double().softmax(1).gather(1, predicted[:, None])[:, 0]
        self.network.eval()
        mean: FloatArray = (total / passes).numpy()
        return mean

    def fine_tuned(self, examples: Examples, seed: int, *, whole: bool, quick: bool) -> TorchModel:
        network = copy.deepcopy(self.network)
        if whole:
            _tune(network, self.prepare(examples.inputs), examples.labels, self.recipe, seed, quick)
        else:
            features = self.outputs(examples.inputs)[0]
            weight, bias = fine_tuned_head(*self.head, features, examples.labels, seed, 30 if quick else 100)
            with torch.no_grad():
                network.last.weight.copy_(torch.from_numpy(weight))
                network.last.bias.copy_(torch.from_numpy(bias))
        return TorchModel(network, self.prepare, self.recipe)

    def save(self, path: Path) -> None:
        from safetensors.torch import save

        with written_whole(path) as temporary:
            temporary.write_bytes(save(self.network.state_dict()))


def _tune(network: Network, x: Tensor, labels: np.ndarray, recipe: Recipe, seed: int, quick: bool) -> None:
    """A low rate, weight decay and the training's own augmentation; the epoch that serves one in five labels, held out,
    best is kept, the untouched network included."""
    n = len(labels)
    rest, held = folds(n, HELD_OUT, seed)[0] if n >= HELD_OUT else (np.arange(n), np.arange(n))
    y = torch.from_numpy(np.asarray(labels)).long()
    steps = max(1, len(rest) // TUNING_BATCH)
    epochs = QUICK_EPOCHS if quick else max(TUNING_EPOCHS, LEAST_STEPS // steps)
    patience = max(3, epochs // 4)
    gentle = replace(recipe, rate=TUNING_RATE, decay=TUNING_DECAY, epochs=epochs, batch=TUNING_BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), lr=TUNING_RATE, weight_decay=TUNING_DECAY)
    best, least, since = copy.deepcopy(network.state_dict()), _loss(network, x[held], y[held]), 0
    for epoch in range(epochs):
        run_epoch(network, optimiser, x[rest], y[rest], gentle, seed, epoch)
        loss = _loss(network, x[held], y[held])
        since += 1
        if loss < least:
            best, least, since = copy.deepcopy(network.state_dict()), loss, 0
        if since >= patience:
            break
    network.load_state_dict(best)
    network.eval()


@torch.inference_mode()
def _loss(network: Network, x: Tensor, y: Tensor) -> float:
    network.eval()
    logits = torch.cat([network(part.to(network.device)).cpu() for part in x.split(CHUNK)])
    return float(nn.functional.cross_entropy(logits, y))


def device() -> torch.device:
    """A GPU where there is one; figures repeat to the last digit on a CPU only."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def trained(
    make: Callable[[], Network],
    prepare: Callable[[Inputs], Tensor],
    recipe: Recipe,
    examples: Examples,
    seed: int,
    path: Path,
) -> TorchModel:
    """Train from the seed, going on from a checkpoint beside `path` where there is one, and keep the weights there."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = make().to(device())
    shuffled = examples.take(np.random.default_rng([seed, 3]).permutation(len(examples)))
    train(network, prepare(shuffled.inputs), shuffled.labels, recipe, seed, path.with_suffix(".checkpoint"))
    model = TorchModel(network, prepare, recipe)
    model.save(path)
    return model


def restored(
    make: Callable[[], Network], prepare: Callable[[Inputs], Tensor], recipe: Recipe, path: Path
) -> TorchModel:
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    network = make()
    network.load_state_dict(load_file(path))
    network.to(device())
    network.eval()
    return TorchModel(network, prepare, recipe)
