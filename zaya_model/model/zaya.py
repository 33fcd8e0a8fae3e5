"""The ZAYA1 model: embedding, blocks, tied head; its initialisation, and the router's counts over all blocks.

Shapes: B batch, S sequence, D hidden, V vocabulary, L blocks, E experts.
"""

import torch
from torch import Tensor, nn

from zaya_model.config import ModelConfig
from zaya_model.model.attention import Past
from zaya_model.model.block import Block
from zaya_model.model.layers import RMSNorm
from zaya_model.model.loss import head_loss
from zaya_model.model.router import SKIP_BIAS


class Model(nn.Module):
    """A language model of the ZAYA1 family (arXiv 2605.05365); the residual stream stays in fp32."""

    def __init__(self, config: ModelConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        types = config.layer_types or ("full",) * config.num_hidden_layers
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.input_scale = nn.Parameter(torch.ones(config.hidden_size))
        self.input_bias = nn.Parameter(torch.zeros(config.hidden_size))
        self.blocks = nn.ModuleList(
            Block(config, is_first=index == 0, is_sliding=kind == "sliding") for index, kind in enumerate(types)
        )
        # A hook, for who runs a block in another way than by calling it.
        self.run_block = Block.__call__
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        shape = (config.vocab_size, config.hidden_size)
        self.untied_head = None if config.tie_word_embeddings else nn.Parameter(torch.empty(shape))
        self.head_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.lm_head_bias else None
        if not self.embed_tokens.weight.is_meta:
            self.init_weights(seed)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (B, S, V) in fp32; `attention_mask` (B, S) is 1 for real tokens, 0 for padding on either side."""
        return self.head(self.hidden_states(input_ids, attention_mask))

    def loss(self, input_ids: Tensor, targets: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Mean cross entropy against `targets` (B, S), already shifted; -100 is left out."""
        hidden = self.hidden_states(input_ids, attention_mask).flatten(0, 1)
        return head_loss(hidden, self.head_weight, self.head_bias, targets.flatten())

    def hidden_states(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The normed stream (B, S, D) that the head reads."""
        return self.step(input_ids, None, attention_mask)[0]

    def step(
        self, input_ids: Tensor, past: list[Past] | None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, list[Past]]:
        """`hidden_states` of tokens that follow `past`, and what the tokens after them need."""
        # A mask of ones costs a product and the fast attention; it says nothing.
        mask = None if attention_mask is None or bool(attention_mask.all()) else attention_mask
        h = torch.addcmul(self.input_bias * self.input_scale, self.embed_tokens(input_ids).float(), self.input_scale)
        state, seen = None, []
        for index, block in enumerate(self.blocks):
            h, state, block_seen = self.run_block(block, h, state, mask, past[index] if past else None)
            seen.append(block_seen)
        return self.norm(h), seen

    @property
    def head_weight(self) -> Tensor:
        """The output matrix (V, D): the embedding, unless the config unties them."""
        return self.embed_tokens.weight if self.untied_head is None else self.untied_head

    def head(self, hidden_BSD: Tensor) -> Tensor:
        """Logits of the normed stream, in fp32."""
        with torch.autocast(hidden_BSD.device.type, enabled=False):
            return nn.functional.linear(hidden_BSD.float(), self.head_weight, self.head_bias)

    def num_parameters(self) -> int:
        """All parameters, a tied head once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def num_active_parameters(self) -> int:
        """Parameters that one token uses, one expert in each block, without embedding and head."""
        named = {name: parameter.numel() for name, parameter in self.named_parameters()}
        head = sum(
            size for name, size in named.items() if name.startswith(("embed_tokens", "untied_head", "head_bias"))
        )
        experts = sum(size for name, size in named.items() if ".experts." in name)
        return sum(named.values()) - head - experts + experts // self.config.num_experts

    @property
    def balancing_biases(self) -> list[Tensor]:
        """The balancing bias (E + 1,) of each block; the last entry is the skip class."""
        return [block.router.balancing_bias for block in self.blocks]

    def router_counts(self) -> Tensor:
        """Tokens of each class in each block (L, E + 1) since the last reset, seen while training."""
        return torch.stack([block.router.counts for block in self.blocks])

    def reset_router_counts(self) -> None:
        """Count from zero again."""
        for block in self.blocks:
            block.router.counts.zero_()

    @torch.no_grad()
    def init_weights(self, seed: int) -> None:
        """Set every parameter; the same seed gives the same weights on any device.

        matrices, convolutions, experts, embedding   normal(0, initializer_range)
        the mlp router's matrices                    normal(0, 1 / (2 sqrt(inputs)))
        the embedding's row of the pad token         0
        biases                                       0
        norms, scales, depth scales                  1
        key temperatures                             key_temperature
        balancing bias                               0, skip class -1

        The router's spread is ours: four layers of small weights would leave all classes alike, and the choice to the
        balancing bias alone, until the rest of the model has settled around it.
        """
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif name.endswith("temperature"):
                parameter.fill_(self.config.key_temperature)
            elif parameter.ndim == 1:
                parameter.fill_(1.0)
            else:
                is_mlp = ".router." in name and self.config.router == "mlp"
                spread = 0.5 * parameter.shape[-1] ** -0.5 if is_mlp else self.config.initializer_range
                drawn = torch.empty(parameter.shape).normal_(0.0, spread, generator=generator)
                parameter.copy_(drawn)
        if self.config.pad_token_id is not None:
            self.embed_tokens.weight[self.config.pad_token_id] = 0.0
        for block in self.blocks:
            block.router.balancing_bias.zero_()[-1] = SKIP_BIAS
            block.router.counts.zero_()
