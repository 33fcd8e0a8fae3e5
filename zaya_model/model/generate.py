"""Go on with tokens, one at a time, each from the cached keys, values and convolution inputs of those before."""

import torch
from torch import Tensor

from zaya_model.model.zaya import Model


@torch.no_grad()
def generate(model: Model, prompt: Tensor, *, num_tokens: int, temperature: float = 0.0, seed: int = 0) -> Tensor:
    """Append `num_tokens` ids to a prompt (B, S); temperature 0 always takes the likeliest."""
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    was_training = model.training
    model.eval()
    ids, (hidden, past) = prompt, model.step(prompt, None)
    for _ in range(num_tokens):
        logits = model.head(hidden[:, -1:])[:, 0]
        if temperature > 0:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
        else:
            chosen = logits.argmax(-1, keepdim=True)
        ids = torch.cat((ids, chosen), dim=1)
        hidden, past = model.step(chosen, past)
    model.train(was_training)
    return ids
