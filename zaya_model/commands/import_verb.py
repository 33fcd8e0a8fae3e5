"""Make a Hugging Face folder the first checkpoint of a run."""

import argparse
from pathlib import Path

from zaya_model.commands.config_flags import add_config_arguments, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder with config.json and *.safetensors")
    add_config_arguments(parser)
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run to make")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    from zaya_model.checkpoint.interop import load_hf
    from zaya_model.checkpoint.save import Saver
    from zaya_model.parallel.mesh import alone
    from zaya_model.presets import build, to_toml
    from zaya_model.train.state import TrainState

    config = read_config(arguments)
    model = load_hf(arguments.folder, skip=config.model.skip)
    config = build({**config.model_dump(mode="json"), "model": model.config.model_dump(mode="json")})
    state = TrainState(config, alone())
    state.model.load_state_dict(model.state_dict())
    arguments.run_dir.mkdir(parents=True, exist_ok=True)
    (arguments.run_dir / "config.toml").write_text(to_toml(config))
    said: list[tuple[int, str, dict[str, object]]] = []
    saver = Saver(arguments.run_dir, config, lambda step, status, **details: said.append((step, status, details)))
    saver.save(0, state.tensors())
    saver.wait()
    _, status, details = said[-1]
    return {"ok": status != "failed", "status": status, "run_dir": str(arguments.run_dir), **details}
