"""Task 2 with the authors' bag-of-words perceptron, which their code has where their text says RNN."""

from __future__ import annotations

import dataclasses

from opcal.experiments import reviews
from opcal.experiments.settings import Settings
from opcal.experiments.tasks import t2_reviews
from opcal.experiments.tasks.base import Domains
from opcal.experiments.tasks.learned import Built, learned

EPOCHS = 12


def data(settings: Settings) -> Domains:
    return t2_reviews.domains_of(settings, reviews.bags)


def _network(domains: Domains, settings: Settings) -> Built:
    from opcal.experiments.nets import network, text, training

    words = domains.train.inputs.shape[1]
    recipe = training.Recipe(EPOCHS, rate=1e-3, batch=32, augment=training.counts_dropped)
    return lambda: text.BagOfWords(words), network.count_tensor, recipe


TRAIN, RESTORE = learned(_network)


TASK = dataclasses.replace(
    t2_reviews.TASK,
    name="2b",
    title="Polarity v1.0 → v2.0, bag of words",
    differs="The same reviews read by a perceptron over a bag of words; the paper's figures are those of its RNN.",
    why="This model is another than the paper's: more accurate, and calibrated rather well already.",
    data=data,
    train=TRAIN,
    restore=RESTORE,
)
