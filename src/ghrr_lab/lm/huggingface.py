"""The language model as a ``transformers`` model, for ``from_pretrained``, ``generate`` and ``Trainer``.

Importing this module registers the model with ``AutoConfig`` and ``AutoModelForCausalLM``. No other module of ghrr
imports ``transformers``.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import describe, install_hint, is_true, names_errors, type_error, value_error
from ghrr.nn import AttentionCache, PositionRotation
from ghrr_lab.lm.config import ModelConfig, setting_names
from ghrr_lab.lm.model import Model
from ghrr_lab.lm.trained_model import load_run

try:
    from transformers import AutoConfig, AutoModelForCausalLM, Cache, GenerationMixin, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutputWithPast
    from transformers.modeling_utils import local_torch_dtype
except ImportError as error:
    raise ImportError(f"ghrr_lab.lm.huggingface: needs transformers 5; {install_hint('hf')}") from error

_SETTINGS = (*sorted(setting_names(old=True)), "version")
_PADDING = "positions are counted from the first token; use batches of rows of equal length"


@names_errors
class GHRRConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Settings of :class:`ghrr_lab.lm.ModelConfig`, under their own names or the names that ``transformers`` uses.

    Examples
    --------
    >>> from ghrr_lab.lm.huggingface import GHRRConfig
    >>> config = GHRRConfig(vocab_size=100, max_len=16)
    >>> config.vocab_size, config.max_position_embeddings, config.model_config.max_len
    (100, 16, 16)
    """

    model_type = "ghrr"
    has_no_defaults_at_init = True  # vocab_size is required
    attribute_map = {  # noqa: RUF012 (the form that transformers expects)
        "hidden_size": "embed_dim",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
        "num_key_value_heads": "num_kv_heads",
        "intermediate_size": "ffn_dim",
        "max_position_embeddings": "max_len",
    }

    def __init__(self, **settings: Any) -> None:
        settings = {self.attribute_map.get(name, name): value for name, value in settings.items()}
        given = {name: settings.pop(name) for name in _SETTINGS if name in settings}
        stored = ModelConfig.from_dict(given).to_dict()  # renames settings of ghrr 0.1
        super().__init__(**settings)
        for name, value in stored.items():
            setattr(self, name, value)

    @property
    def model_config(self) -> ModelConfig:
        """The same settings as a :class:`ghrr_lab.lm.ModelConfig`."""
        return ModelConfig(**{name: getattr(self, name) for name in setting_names()})


@names_errors
class GHRRCache(Cache):
    """Keys and values of earlier tokens, one :class:`ghrr.nn.AttentionCache` per layer.

    Rows can be selected and reordered. The last tokens can be removed where :meth:`ghrr.nn.AttentionCache.crop` can.

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab.lm.huggingface import GHRRConfig, GHRRForCausalLM
    >>> model = GHRRForCausalLM(GHRRConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16))
    >>> model(torch.tensor([[1, 2, 3]]), use_cache=True).past_key_values.get_seq_length()
    3
    """

    def __init__(self, attention: list[AttentionCache]) -> None:
        super().__init__(layers=[])
        self.attention = attention

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of cached tokens."""
        return self.attention[layer_idx].length

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the given rows of the batch, in the given order."""
        for cache in self.attention:
            cache.select(indices)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder the rows for beam search."""
        self.batch_select_indices(beam_idx)

    def reset(self) -> None:
        """Remove all tokens."""
        self.attention[:] = [AttentionCache() for _ in self.attention]

    def crop(self, max_length: int) -> None:
        """Keep the first ``max_length`` tokens; a negative number is the number of tokens to remove."""
        for cache in self.attention:
            cache.crop(max_length if max_length >= 0 else cache.length + max_length)


@names_errors
class GHRRForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[no-untyped-call]
    """A :class:`ghrr_lab.lm.Model` as a ``transformers`` model.

    Input and output share one embedding. Rows padded on the right can be trained on and scored, because no token
    attends to later ones. Padding on the left, and any padding in ``generate``, raises an error.

    Shapes
    ------
    input_ids, attention_mask, labels: ``(batch, n)``; logits: ``(batch, n, vocab_size)``

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab.lm.huggingface import GHRRConfig, GHRRForCausalLM
    >>> _ = torch.manual_seed(0)
    >>> model = GHRRForCausalLM(GHRRConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16)).eval()
    >>> prompt = torch.tensor([[1, 2, 3]])
    >>> model.generate(prompt, max_new_tokens=5, do_sample=False).shape
    torch.Size([1, 8])
    >>> model(prompt, labels=prompt).loss.shape
    torch.Size([])
    """

    config_class = GHRRConfig
    accepts_loss_kwargs = True  # Trainer then passes num_items_in_batch

    def __init__(self, config: GHRRConfig) -> None:
        super().__init__(config)
        device, dtype = torch.get_default_device(), torch.get_default_dtype()
        # from_pretrained builds on the meta device and in its own dtype, but the angles of positions need real float32.
        with torch.device("cpu" if device.type == "meta" else device), local_torch_dtype(torch.float32):
            self.model = Model(config.model_config)
        self._positions = dict(self.named_non_persistent_buffers())
        if dtype != torch.float32:
            if config.weights == "unitary":
                raise value_error(f"dtype must be float32 for unitary weights, which are complex, got {dtype}")
            self.model.to(dtype)
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def from_run(cls, folder: str | os.PathLike[str]) -> GHRRForCausalLM:
        """Load the best model of a run folder. :func:`ghrr_lab.lm.load_run` also loads its tokenizer."""
        trained, _ = load_run(folder)
        model = cls(GHRRConfig(**trained.config.to_dict()))
        model.model.load_state_dict(trained.state_dict())
        model.eval()  # type: ignore[no-untyped-call]
        return model

    @classmethod
    def from_pretrained(cls, *arguments: Any, output_loading_info: bool = False, **settings: Any) -> Any:
        """Load a saved model. Unlike in ``transformers``, pickles are refused, and weights must fit exactly."""
        settings = {"use_safetensors": True, **settings, "output_loading_info": True}
        loaded: Any = super().from_pretrained(*arguments, **settings)
        model, info = loaded
        reshaped = {name for name, *_ in info["mismatched_keys"]}
        different = sorted({*info["missing_keys"], *info["unexpected_keys"], *reshaped})
        if different:
            raise value_error(
                f"{len(different)} weights are missing, unknown or have another shape, such as "
                f"{different[0]}; load them with the config that they were saved with"
            )
        return loaded if output_loading_info else model

    def _init_weights(self, module: nn.Module) -> None:
        """Restore after loading the buffers that files do not hold; a new model is initialised already."""
        if module is self.model:
            for name, buffer in self._positions.items():
                self.get_buffer(name).copy_(buffer)
            for part in self.model.modules():
                if isinstance(part, PositionRotation):
                    part.recompute()  # from the loaded frequencies

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # forward makes a GHRRCache

    @names_errors("{cls}.generate")
    def prepare_inputs_for_generation(self, *args: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        """Raise for padding, then prepare inputs as ``transformers`` does."""
        if attention_mask is not None and is_true((attention_mask == 0).any()):
            raise value_error(f"attention_mask must not mask tokens; {_PADDING}")
        return super().prepare_inputs_for_generation(*args, **kwargs)  # type: ignore[misc]

    def forward(  # noqa: PLR0917 (the order of transformers)
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: GHRRCache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Return logits for the next token at each position and, if labels are given, the mean loss.

        The label at position t + 1 is scored at position t; labels of -100 are not scored. ``past_key_values`` is the
        cache that an earlier call with ``use_cache=True`` returned.
        """
        if past_key_values is None and use_cache:
            past_key_values = GHRRCache(self.model.new_cache())
        self._check(input_ids, attention_mask, past_key_values)
        logits = self.model(input_ids, None if past_key_values is None else past_key_values.attention)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, logits.shape[-1], num_items_in_batch=num_items_in_batch)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)
        return output.to_tuple() if return_dict is False else output

    def _check(self, tokens: Tensor, mask: Tensor | None, past: GHRRCache | None) -> None:
        """Raise for inputs that would otherwise give an unclear error or a wrong result."""
        config = self.model.config
        if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.dtype not in (torch.int32, torch.int64):
            raise value_error(f"input_ids must be whole numbers of shape (batch, n), got {describe(tokens)}")
        if is_true(((tokens < 0) | (tokens >= config.vocab_size)).any()):
            raise value_error(
                f"input_ids must lie in [0, {config.vocab_size - 1}], got {int(tokens.min())} to "
                f"{int(tokens.max())}; encode the text with the tokenizer that the model was trained with"
            )
        if past is not None and not isinstance(past, GHRRCache):
            raise type_error(
                f"past_key_values must be None or a GHRRCache that this model returned, got {describe(past)}"
            )
        length = tokens.shape[1] + (0 if past is None else past.get_seq_length())
        if length > config.max_len:
            raise value_error(
                f"the number of tokens must not exceed the context ({config.max_len}), got {length}; shorten "
                "the prompt or max_new_tokens, or use ghrr_lab.lm.generate, which generates beyond the context"
            )
        if mask is None:
            return
        if mask.shape != (len(tokens), length):
            raise value_error(
                f"attention_mask must have shape {(len(tokens), length)}, one entry for each token so far, got "
                f"{describe(mask)}"
            )
        if is_true((mask == 0).any() if past is not None else (mask.long().diff(dim=-1) > 0).any()):
            raise value_error(f"attention_mask must not mask tokens before other tokens; {_PADDING}")


AutoConfig.register(GHRRConfig.model_type, GHRRConfig)
AutoModelForCausalLM.register(GHRRConfig, GHRRForCausalLM)
