"""A Hugging Face text classifier and a CSV file: the folder of the model is all that is needed, and no network.

    python examples/extract_huggingface_text.py

needs `pip install "opcal[huggingface]"`. A tiny model with random weights is made here: name the folder of your own.
The same from the command line: opcal extract my-model/ reviews.csv --text review --id key --out pool
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from opcal.extract import extract


def save_tiny_model(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "good", "bad", "film", "great"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )
    fast.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        num_labels=2, id2label={0: "negative", 1: "positive"},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_tiny_model(folder / "my-model")
        reviews = folder / "reviews.csv"
        lines = [f"r{i},{('a good film', 'a bad film', 'great')[i % 3]}" for i in range(60)]
        reviews.write_text("key,review\n" + "\n".join(lines) + "\n", encoding="utf-8")

        found = extract(folder / "my-model", reviews, text="review", id="key", out=folder / "pool")
        print(found.representation)  # the input of classifier (Linear), 32 numbers
        print(found.pool, found.pool.classes, found.pool.payload[:2] if found.pool.payload else None)


if __name__ == "__main__":
    main()
