"""Go on with tokens, one at a time, from the cached keys, values, convolution inputs and delayed values."""

import torch
from torch import Tensor

from zaya_model.model.zaya import Model


@torch.inference_mode()
def generate(
    model: Model,
    prompt: Tensor,
    *,
    num_tokens: int,
    attention_mask: Tensor | None = None,
    temperature: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """Append `num_tokens` ids to a prompt (B, S); temperature 0 always takes the likeliest.

    Prompts of different lengths are padded on the left, with an `attention_mask` (B, S) of 0 there.
    """
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    was_training = model.training
    model.eval()
    ids, new, mask, past = prompt, prompt, attention_mask, None
    for _ in range(num_tokens):
        hidden, past = model.step(new, past, mask)
        new, mask = _choose(model.head(hidden[:, -1]), temperature, generator), None
        ids = torch.cat((ids, new), dim=1)
    model.train(was_training)
    return ids


def _choose(logits_BV: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature > 0:
        return torch.multinomial((logits_BV / temperature).softmax(dim=-1), 1, generator=generator)
    return logits_BV.argmax(dim=-1, keepdim=True)
