"""Language models whose attention is binding: text, tokens, model, training, evaluation, generation."""

from ghrr.lm.compare import compare
from ghrr.lm.config import ModelConfig
from ghrr.lm.corpora import Corpus, fetch_corpus, load_corpus
from ghrr.lm.evaluate import Score, evaluate
from ghrr.lm.generate import generate
from ghrr.lm.grammar import generate_grammar_text, grammar_perplexity
from ghrr.lm.model import Model, match_parameters
from ghrr.lm.run_folder import RunError
from ghrr.lm.summary import average, markdown_table
from ghrr.lm.text import Text, encode_corpus
from ghrr.lm.tokens import BPETokens, Tokens, WordTokens, tokens_from_state
from ghrr.lm.train import Progress, TrainConfig, load_run, train

__all__ = [
    "BPETokens",
    "Corpus",
    "Model",
    "ModelConfig",
    "Progress",
    "RunError",
    "Score",
    "Text",
    "Tokens",
    "TrainConfig",
    "WordTokens",
    "average",
    "compare",
    "encode_corpus",
    "evaluate",
    "fetch_corpus",
    "generate",
    "generate_grammar_text",
    "grammar_perplexity",
    "load_corpus",
    "load_run",
    "markdown_table",
    "match_parameters",
    "tokens_from_state",
    "train",
]
