"""The flags that choose a config, the same for every verb that needs one."""

import argparse
from pathlib import Path

from zaya_model.config import RunConfig
from zaya_model.presets import load_preset, load_toml, parse_assignments, preset_names


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and --set."""
    parser.add_argument("config", metavar="CONFIG", help=f"a TOML file, or a preset: {', '.join(preset_names())}")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one field; may be repeated"
    )


def read_config(arguments: argparse.Namespace) -> RunConfig:
    """The config that the flags name. Raises ConfigError."""
    overrides = parse_assignments(arguments.set)
    if arguments.config in preset_names() and not Path(arguments.config).exists():
        return load_preset(arguments.config, overrides)
    return load_toml(Path(arguments.config), overrides)
