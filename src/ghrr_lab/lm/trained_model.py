"""Load the trained model of a run folder."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ghrr.checks import check_device, named, names_errors, without_name
from ghrr.files import read_json
from ghrr.training import restore_module
from ghrr_lab.lm.checkpoint import check_shapes, load_checkpoint
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.model import Model
from ghrr_lab.lm.run_folder import BEST, RUN, VOCABULARY, RunError
from ghrr_lab.lm.tokenizers import Tokenizer, tokenizer_from_state


@names_errors
def load_run(folder: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> tuple[Model, Tokenizer]:
    """Load the best model of a run and its tokenizer, ready to evaluate or to generate text.

    Parameters
    ----------
    folder
        Folder written by :func:`ghrr_lab.lm.train`, of this version or of 0.1.
    device
        Device for the model.

    Raises
    ------
    RunError
        The folder holds no run, the run has not reached its first evaluation, a file is damaged, or the vocabulary is
        not the one that the model was trained with.

    Examples
    --------
    >>> import tempfile
    >>> from ghrr_lab import lm
    >>> sentences = lm.generate_grammar_text(200, seed=0)
    >>> text = lm.encode_corpus(lm.Corpus("tiny", train=sentences, valid=sentences, test=sentences))
    >>> config = lm.ModelConfig(
    ...     vocab_size=text.tokenizer.vocab_size, embed_dim=16, num_layers=1, ffn_dim=8, max_len=8, attention="rope"
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = lm.train(config, lm.TrainConfig(epochs=1), text, folder, device="cpu")
    ...     model, tokenizer = lm.load_run(folder)
    >>> model.config == config, tokenizer == text.tokenizer
    (True, True)
    """
    path, target = Path(folder), check_device(device)
    if not (path / RUN).exists():
        raise RunError(named(f"{path} holds no run, expected a folder with {RUN}"))
    if not (path / BEST).exists():
        raise RunError(named(f"the run in {path} has no weights yet; resume its training until an evaluation"))
    try:
        tokenizer = tokenizer_from_state(read_json(path / VOCABULARY))
        info, tensors = load_checkpoint(path / BEST)
        if info["vocabulary"] != tokenizer.fingerprint:
            raise ValueError(f"{VOCABULARY} is not the vocabulary that the model was trained with")
        config = ModelConfig.from_dict(info["model"])
        check_shapes(config, tensors)
        with torch.random.fork_rng(devices=[]):
            model = Model(config)
        restore_module(model, tensors, "model")
    except (OSError, ValueError, TypeError) as error:
        raise RunError(named(f"{path}: {without_name(error)}")) from error
    return model.to(target).eval(), tokenizer
