"""Language models with GHRR attention: corpora, tokenizers, model, training, evaluation and generation."""

from ghrr_lab.lm.comparison import compare
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.corpora import Corpus, load_corpus
from ghrr_lab.lm.corpus_download import fetch_corpus
from ghrr_lab.lm.encoded_corpus import EncodedCorpus, encode_corpus
from ghrr_lab.lm.evaluation import Score, evaluate
from ghrr_lab.lm.generation import generate
from ghrr_lab.lm.grammar import generate_grammar_text, grammar_perplexity
from ghrr_lab.lm.model import Model, match_parameters
from ghrr_lab.lm.run_folder import RunError
from ghrr_lab.lm.summary import average_over_seeds, markdown_table
from ghrr_lab.lm.tokenizers import BPETokenizer, Tokenizer, WordTokenizer, tokenizer_from_state
from ghrr_lab.lm.train_config import TrainConfig
from ghrr_lab.lm.trained_model import load_run
from ghrr_lab.lm.training import TrainProgress, train

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
