"""Let a checkpoint go on with a text."""

import argparse

from zaya_model.commands.checkpoint_flags import add_checkpoint_arguments, read_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("--prompt", default="The ", help="text to go on with")
    parser.add_argument("--tokens", type=int, default=200, help="tokens to add")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 always takes the likeliest token")
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace) -> object:
    import torch

    from zaya_model.data.prepare import tokenizer_of
    from zaya_model.data.tokenizer import load_tokenizer
    from zaya_model.model.generate import generate

    model, config, step = read_checkpoint(arguments)
    tokenizer = load_tokenizer(tokenizer_of(config.data.path, config.data.tokenizer))
    prompt = torch.tensor([tokenizer.encode(arguments.prompt).tolist() or [tokenizer.end]])
    ids = generate(model, prompt, num_tokens=arguments.tokens, temperature=arguments.temperature, seed=arguments.seed)
    text = tokenizer.decode(ids[0].tolist())
    return {"step": step, "text": text} if arguments.json else text
