"""Tiny Hugging Face models with random weights, made here; no network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from extract_cases import image_folder

from opcal import errors
from opcal.extract import extract

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.extract

WORDS = ["[PAD]", "[UNK]", "good", "bad", "film", "so", "great", "the"]
TEXTS = ["good film", "bad bad film so bad", "so so", "great the film good good good"] * 10


def tokenizer(folder: Path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )
    fast.save_pretrained(folder)
    return fast


def text_model(folder: Path, kind="bert"):
    torch.manual_seed(0)
    names = {0: "negative", 1: "neutral", 2: "positive"}
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=16, num_labels=3, id2label=names,
        )  # fmt: skip
        model = transformers.BertForSequenceClassification(config)
    else:
        config = transformers.GPT2Config(
            vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, num_labels=3, pad_token_id=0,
            bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        model = transformers.GPT2ForSequenceClassification(config)
    model.save_pretrained(folder)
    return model.eval()


def image_model(folder: Path, *, processor=True):
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
        num_labels=4,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    model.save_pretrained(folder)
    if processor:
        from transformers import ViTImageProcessorPil

        ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return model.eval()


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_text_model_gives_its_own_logits_and_the_input_of_its_head(tmp_path, kind):
    model, words = text_model(tmp_path / "m", kind), tokenizer(tmp_path / "m")
    (tmp_path / "t.csv").write_text("id,review,ward\n" + "".join(f"{i:03d},{t},n\n" for i, t in enumerate(TEXTS)))
    found = extract(str(tmp_path / "m"), tmp_path / "t.csv", out=tmp_path / "pool", text="review", batch_size=8)
    pool = found.pool
    with torch.inference_mode():
        said = np.concatenate(
            [model(**words(TEXTS[i : i + 8], padding=True, return_tensors="pt")).logits for i in range(0, 40, 8)]
        )
    np.testing.assert_allclose(pool.logits, said, atol=1e-5)
    np.testing.assert_allclose(pool.features @ pool.head.weight.T + pool.head.bias, pool.logits, atol=1e-5)
    assert pool.payload == TEXTS
    assert pool.ids[1] == "001"
    assert pool.columns == {"ward": ["n"] * 40}
    assert pool.classes == (("negative", "neutral", "positive") if kind == "bert" else None)


def test_an_image_model_gives_its_own_logits(tmp_path):
    model = image_model(tmp_path / "m")
    folder = image_folder(tmp_path / "images", n=7, size=(40, 30))
    pool = extract(tmp_path / "m", folder, out=tmp_path / "pool", batch_size=4).pool
    from PIL import Image

    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "m", backend="pil")
    images = [Image.open(file) for file in sorted(folder.iterdir())]
    with torch.inference_mode():
        said = model(**processor(images, return_tensors="pt")).logits.numpy()
    np.testing.assert_allclose(pool.logits, said, atol=1e-5)
    assert pool.features.shape == (7, 16)
    for image in images:
        image.close()


def test_a_model_in_memory_takes_its_processor_by_folder(tmp_path):
    model = text_model(tmp_path / "m")
    tokenizer(tmp_path / "words")
    with pytest.raises(errors.ModelError, match=r"needs a tokenizer.*--processor"):
        extract(model, TEXTS, out=tmp_path / "pool")
    assert extract(model, TEXTS, out=tmp_path / "pool", processor=tmp_path / "words").items == 40


class Words(torch.nn.Module):
    """Not of Hugging Face, but it takes what a tokenizer makes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = torch.nn.Embedding(len(WORDS), 5), torch.nn.Linear(5, 3)

    def forward(self, input_ids, attention_mask=None, **_):
        seen = self.words(input_ids) * attention_mask[..., None]
        return self.head(seen.sum(1) / attention_mask.sum(1, keepdim=True))


def test_any_module_takes_texts_through_a_tokenizer(tmp_path):
    words, model = tokenizer(tmp_path / "words"), Words()
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps({"n": i, "review": t}) + "\n" for i, t in enumerate(TEXTS)))
    pool = extract(model, table, out=tmp_path / "pool", processor=tmp_path / "words", batch_size=8).pool
    with torch.inference_mode():
        said = model(**words(TEXTS[:8], padding=True, return_tensors="pt")).numpy()
    np.testing.assert_allclose(pool.logits[:8], said, atol=1e-6)
    assert pool.payload == TEXTS


def test_an_onnx_text_model_takes_its_tokenizers_folder(tmp_path):
    onnx = pytest.importorskip("onnx")
    tokenizer(tmp_path / "words")
    helper, kinds = onnx.helper, onnx.TensorProto
    rng = np.random.default_rng(0)
    weights = {"E": rng.standard_normal((len(WORDS), 5)), "W": rng.standard_normal((5, 3)), "B": np.zeros(3)}
    nodes = [
        helper.make_node("Gather", ["E", "input_ids"], ["seen"]),
        helper.make_node("ReduceMean", ["seen"], ["z"], axes=[1], keepdims=0),
        helper.make_node("Gemm", ["z", "W", "B"], ["h"], name="head"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("input_ids", kinds.INT64, ["n", "length"])],
        [helper.make_tensor_value_info("h", kinds.FLOAT, ["n", 3])],
        [onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    pool = extract(made, ["good film", "bad film"], out=tmp_path / "pool", processor=tmp_path / "words").pool
    np.testing.assert_allclose(pool.features[0], weights["E"][[2, 4]].mean(0), atol=1e-6)
    with pytest.raises(errors.ModelError, match=r"input_ids|takes numbers"):
        extract(made, image_folder(tmp_path / "i"), out=tmp_path / "other")


def test_what_a_folder_lacks_is_told(tmp_path):
    text_model(tmp_path / "m")
    with pytest.raises(errors.ModelError, match=r"holds no tokenizer: save it there.*--processor"):
        extract(tmp_path / "m", TEXTS, out=tmp_path / "pool")
    image_model(tmp_path / "v", processor=False)
    with pytest.raises(errors.ModelError, match=r"holds no image processor.*--processor"):
        extract(tmp_path / "v", image_folder(tmp_path / "i"), out=tmp_path / "pool")
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.ModelError, match=r"holds no config\.json"):
        extract(tmp_path / "empty", TEXTS, out=tmp_path / "pool")


def test_data_of_another_kind_are_told(tmp_path):
    text_model(tmp_path / "m")
    tokenizer(tmp_path / "m")
    with pytest.raises(errors.DataError, match="takes texts"):
        extract(tmp_path / "m", image_folder(tmp_path / "i"), out=tmp_path / "pool")
    image_model(tmp_path / "v")
    with pytest.raises(errors.DataError, match="takes images"):
        extract(tmp_path / "v", TEXTS, out=tmp_path / "pool")


def test_names_that_do_not_match_the_head_and_weights_that_are_missing_are_told(tmp_path):
    text_model(tmp_path / "m")
    tokenizer(tmp_path / "m")
    with pytest.raises(errors.ModelError, match=r"2 class names .* head has 3 outputs"):
        extract(tmp_path / "m", TEXTS, out=tmp_path / "pool", classes=["no", "yes"])
    transformers.BertModel(transformers.AutoConfig.from_pretrained(tmp_path / "m")).save_pretrained(tmp_path / "base")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    with pytest.raises(errors.ModelError, match="holds BertModel: expected one whose name ends in"):
        extract(tmp_path / "base", TEXTS, out=tmp_path / "pool")
    config["architectures"] = ["BertForSequenceClassification"]
    (tmp_path / "base" / "config.json").write_text(json.dumps(config))
    with pytest.raises(errors.ModelError, match="lacks 2 weights of its model, classifier"):
        extract(tmp_path / "base", TEXTS, out=tmp_path / "pool")


def test_a_model_of_several_labels_at_once_is_refused(tmp_path):
    text_model(tmp_path / "m")
    tokenizer(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"problem_type": "multi_label_classification"}))
    with pytest.raises(errors.ModelError, match="multi label classification"):
        extract(tmp_path / "m", TEXTS, out=tmp_path / "pool")
