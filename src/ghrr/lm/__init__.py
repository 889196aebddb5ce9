"""Language models with GHRR attention: corpora, tokenizers, model, training, evaluation and generation."""

from ghrr.lm.comparison import compare
from ghrr.lm.config import ModelConfig
from ghrr.lm.corpora import Corpus, load_corpus
from ghrr.lm.corpus_download import fetch_corpus
from ghrr.lm.encoded_corpus import EncodedCorpus, encode_corpus
from ghrr.lm.evaluation import Score, evaluate
from ghrr.lm.generation import generate
from ghrr.lm.grammar import generate_grammar_text, grammar_perplexity
from ghrr.lm.model import Model, match_parameters
from ghrr.lm.run_folder import RunError
from ghrr.lm.summary import average_over_seeds, markdown_table
from ghrr.lm.tokenizers import BPETokenizer, Tokenizer, WordTokenizer, tokenizer_from_state
from ghrr.lm.train_config import TrainConfig
from ghrr.lm.trained_model import load_run
from ghrr.lm.training import TrainProgress, train

__all__ = [
    "BPETokenizer",
    "Corpus",
    "EncodedCorpus",
    "Model",
    "ModelConfig",
    "RunError",
    "Score",
    "Tokenizer",
    "TrainConfig",
    "TrainProgress",
    "WordTokenizer",
    "average_over_seeds",
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
    "tokenizer_from_state",
    "train",
]
