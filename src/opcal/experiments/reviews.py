"""Film reviews as tokens or as bags of words; the vocabulary is what the training reviews use."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opcal.core.method import BoolArray, IntArray
from opcal.errors import PoolError
from opcal.experiments import layouts
from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Inputs

UNKNOWN, FIRST = 1, 2
"""0 stands for no token, 1 for a word that the training reviews hold fewer than three times."""
RARE, MOST_WORDS = 3, 8_000


@dataclass(frozen=True)
class Reviews:
    texts: list[str]
    labels: IntArray
    known: BoolArray  # of v2.0: the same IMDb page is in v1.0


def both(settings: Settings) -> tuple[Reviews, Reviews]:
    """Polarity v1.0 and v2.0."""
    if settings.size == "full":
        return _folders(settings.data)
    old, new = (_lines(settings.data / f"polarity_{v}.jsonl.gz") for v in ("v1", "v2"))
    return _of_lines(old), _of_lines(new)


def _lines(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        raise PoolError(f"{path} is missing: --data expects the folder with {path.name}; see `opcal paper --help`")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _of_lines(rows: list[dict[str, object]]) -> Reviews:
    known = np.array([bool(row.get("in_v1", 0)) for row in rows])
    return Reviews([str(row["text"]) for row in rows], np.array([row["label"] for row in rows], dtype=np.intp), known)


def _folders(folder: Path) -> tuple[Reviews, Reviews]:
    (old, old_labels, old_pages), (new, new_labels, pages) = (
        layouts.polarity(folder / f"polarity-{version}") for version in ("v1", "v2")
    )
    return Reviews(old, old_labels, np.zeros(len(old), bool)), Reviews(new, new_labels, np.isin(pages, old_pages))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+|[!?]", text.lower())


def vocabulary(texts: list[str]) -> dict[str, int]:
    """Word to index, the most frequent first, ties by the alphabet."""
    counts = Counter(word for text in texts for word in words(text))
    kept = sorted((word for word, n in counts.items() if n >= RARE), key=lambda word: (-counts[word], word))
    return {word: FIRST + i for i, word in enumerate(kept[: MOST_WORDS - FIRST])}


def tokens(texts: list[str], known: dict[str, int], length: int) -> Inputs:
    """[N, length]: a long review's beginning and end, where its verdict stands."""
    found = np.zeros((len(texts), length), dtype=np.int32)
    for row, text in enumerate(texts):
        numbers = [known.get(word, UNKNOWN) for word in words(text)]
        if len(numbers) > length:
            numbers = numbers[: length // 2] + numbers[-(length - length // 2) :]
        found[row, : len(numbers)] = numbers
    return found


def bags(texts: list[str], known: dict[str, int]) -> Inputs:
    """[N, words] does the review hold the word?"""
    found = np.zeros((len(texts), FIRST + len(known)), dtype=np.uint8)
    for row, text in enumerate(texts):
        found[row, [known[word] for word in words(text) if word in known]] = 1
    return found
