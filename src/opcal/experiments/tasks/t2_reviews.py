"""Task 2: a recurrent network learned on film reviews of Polarity v1.0 and reads v2.0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opcal.experiments import reviews
from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Domains, Examples, Inputs, Printed, Task
from opcal.experiments.tasks.learned import Built, learned

LENGTH, QUICK_LENGTH, FULL_LENGTH = 400, 240, 800
EPOCHS = 14


def data(settings: Settings) -> Domains:
    length = FULL_LENGTH if settings.size == "full" else QUICK_LENGTH if settings.quick else LENGTH
    return domains_of(settings, lambda texts, known: reviews.tokens(texts, known, length))


def domains_of(settings: Settings, encode: Callable[[list[str], dict[str, int]], Inputs]) -> Domains:
    """A tenth of v1.0 is kept to test at home."""
    old, new = reviews.both(settings)
    order = np.random.default_rng(2).permutation(len(old.labels))
    home, away = order[len(order) // 10 :], order[: len(order) // 10]
    known = reviews.vocabulary([old.texts[i] for i in home])
    train, origin = (Examples(encode([old.texts[i] for i in rows], known), old.labels[rows]) for rows in (home, away))
    field = Examples(encode(new.texts, known), new.labels)
    groups = {"not in v1.0": ~new.known, "in v1.0 too": new.known} if new.known.any() else {}
    return Domains(train, origin, field, ("negative", "positive"), groups=groups)


def _network(domains: Domains, settings: Settings) -> Built:
    from opcal.experiments.nets import network, text, training

    made = text.Recurrent if settings.size == "full" else text.SmallRecurrent
    recipe = training.Recipe(EPOCHS, rate=3e-3, decay=1e-2, batch=16, augment=training.words_dropped)
    return lambda: made(reviews.MOST_WORDS), network.token_tensor, recipe


TRAIN, RESTORE = learned(_network)


TASK = Task(
    name="2",
    title="Polarity v1.0 → v2.0, recurrent network",
    differs="968 of the 2,000 reviews of v2.0 are of a page that is in v1.0: figures of the others stand beside "
    "those of "
    "all. The paper's 99.0 % at home is that of its training reviews; here a tenth of v1.0 is kept to test at home.",
    why="Half of the reviews were seen in training, here as there; this network is less sure of its mistakes than "
    "the paper's.",
    printed=Printed(
        model="RNN",
        data="Polarity (v1.0 → v2.0)",
        accuracy=(99.0, 83.4),
        size=1000,
        brier={
            "uncalibrated": 0.203,
            "paper": 0.102,
            "RFR": 0.107,
            "SVR": 0.202,
            "TS": 0.185,
            "PS-conf": 0.641,
            "PS-logit": 0.125,
            "IR": 0.655,
            "SAR": 0.175,
        },
        confident={
            0.8: ((512, 552.9), (118, 39.9), (0.162, 0.091)),
            0.9: ((482, 261.3), (106, 12.0), (0.132, 0.070)),
        },
    ),
    data=data,
    train=TRAIN,
    restore=RESTORE,
    pool_share=0.5,
)
