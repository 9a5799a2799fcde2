"""Networks that read reviews: recurrent ones over tokens, and the authors' perceptron over a bag of words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opcal.experiments.nets.network import Network


class SmallRecurrent(Network):
    """Tokens [N, T], 0 for none, to z [N, 64]: phrases of eight tokens, read by a gated unit both ways."""

    def __init__(self, words: int, classes: int = 2, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.drop = nn.Dropout(0.5)
        self.phrases = nn.AvgPool1d(8)
        self.read = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(3 * width, 64)
        self.out = nn.Linear(64, classes)

    def represent(self, x: Tensor) -> Tensor:
        steps = self.phrases(self.drop(self.embed(x)).transpose(1, 2)).transpose(1, 2)
        states, _ = self.read(steps)
        z: Tensor = self.hidden(self.drop(torch.cat([states.mean(1), steps.mean(1)], 1))).relu()
        return z

    @property
    def last(self) -> nn.Linear:
        return self.out


class Recurrent(Network):
    """Full size: two layers of long short-term memory both ways over 300-dimensional words, to z [N, 256]."""

    def __init__(self, words: int, classes: int = 2, width: int = 300, state: int = 256) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.read = nn.LSTM(width, state, num_layers=2, dropout=0.5, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.5)
        self.hidden = nn.Linear(4 * state, 256)
        self.out = nn.Linear(256, classes)

    def represent(self, x: Tensor) -> Tensor:
        states, _ = self.read(self.drop(self.embed(x)))
        z: Tensor = self.hidden(self.drop(torch.cat([states.mean(1), states.amax(1)], 1))).relu()
        return z

    @property
    def last(self) -> nn.Linear:
        return self.out


class BagOfWords(Network):
    """Word occurrences [N, V] to z [N, 128]."""

    def __init__(self, words: int, classes: int = 2) -> None:
        super().__init__()
        self.hidden = nn.Linear(words, 128)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(128, classes)

    def represent(self, x: Tensor) -> Tensor:
        z: Tensor = self.drop(self.hidden(x).relu())
        return z

    @property
    def last(self) -> nn.Linear:
        return self.out
