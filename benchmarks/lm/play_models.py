"""Train the two language models that the playground shows first, on sentences of a small grammar.

::

    python -m benchmarks lm.play_models

It takes a minute, and writes the folders ``ghrr`` and ``vanilla`` in ``src/ghrr_lab/play/trained``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import torch

from ghrr_lab import lm
from ghrr_lab.play.attention import KINDS, SIZE, TRAINED, TRAINING

EPOCHS = 24
SENTENCES = (8000, 200, 200)
FILES = ("run.json", "vocabulary.json", "best.safetensors", "result.json")


def main() -> None:
    """Train both models with the same settings, and copy the files that the playground reads."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)  # with several threads, sums are rounded differently
    texts = [lm.generate_grammar_text(count, seed=seed) for seed, count in enumerate(SENTENCES)]
    text = lm.encode_corpus(lm.Corpus("grammar", *texts))
    for kind in KINDS:
        config = lm.ModelConfig(vocab_size=text.tokenizer.vocab_size, attention=kind, **SIZE)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as folder:
            training = lm.TrainConfig(epochs=EPOCHS, **TRAINING)  # type: ignore[arg-type]
            result = lm.train(config, training, text, folder, device="cpu")
            (TRAINED / kind).mkdir(parents=True, exist_ok=True)
            for name in FILES:
                shutil.copyfile(Path(folder) / name, TRAINED / kind / name)
        print(f"{kind}: perplexity {result['valid_ppl']:.2f}")
