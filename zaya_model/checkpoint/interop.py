"""Hugging Face folders of ZAYA weights, both ways: the names of transformers 5 and those of Zyphra's first release.

A folder holds `config.json` and `*.safetensors`, in one file or in shards with an index.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from zaya_model.checkpoint.interop_config import config_from_hf, config_to_hf
from zaya_model.checkpoint.interop_names import hf_name, hf_names, num_old_layers, old_names
from zaya_model.errors import CheckpointError
from zaya_model.model import Model
from zaya_model.model.router import SKIP_BIAS

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_NOTES = """\
# ZAYA1 weights for transformers

Load with `ZayaForCausalLM.from_pretrained(".")` (transformers 5.24 or newer).

- After loading, transformers sets the skip class's entry of every `balancing_biases` to -1. {skip_bias}
- transformers takes a skipped token's output as zero; this model was made with the reading `{skip}`.{skip_hint}
"""


def load_hf(folder: str | Path, skip: Literal["identity", "zero"] = "identity") -> Model:
    """Read a folder of ZAYA weights into a model in fp32, on the CPU.

    `skip` is what the skip class gives: `identity` as Zyphra trained it, `zero` as transformers 5.24 computes it.
    Raises ConfigError for a field it does not know or cannot honour, CheckpointError for weights that do not fit.
    """
    folder = Path(folder)
    files = _tensor_files(folder)
    names = [name for path in files for name in _names_in(path)]
    num_layers = num_old_layers(names)
    config = config_from_hf(_read_json(folder / "config.json"), skip=skip, num_old_layers=num_layers)
    with torch.device("meta"):
        model = Model(config)
    model.to_empty(device="cpu")
    model.reset_router_counts()
    state = model.state_dict()
    if num_layers:
        places = old_names(state, num_blocks=config.num_hidden_layers, num_experts=config.num_experts)
    else:
        places = hf_names(state)
    tied_copy = {"lm_head.weight"} - places.keys()
    _compare_names(places.keys(), names, tied_copy)
    misfits, head = [], None
    for name, tensor in _read_tensors(files):
        if name in tied_copy:
            head = tensor
            continue
        place = places[name]
        target = state[place.name] if place.expert is None else state[place.name][place.expert]
        if tensor.shape != target.shape:
            misfits.append(f"{name} has shape {tuple(tensor.shape)}, the config asks for {tuple(target.shape)}")
        elif not tensor.is_floating_point():
            misfits.append(f"{name} is stored as {tensor.dtype}, not as floating-point numbers")
        else:
            target.copy_(tensor)
    if head is not None and not torch.equal(head.to(torch.float32), model.head_weight):
        misfits.append("lm_head.weight is not the embedding, though tie_word_embeddings says so")
    if misfits:
        raise CheckpointError(f"{len(misfits)} tensors do not fit: {_some(misfits, '; ')}")
    return model


def save_hf(
    model: Model,
    folder: str | Path,
    *,
    dtype: torch.dtype = torch.float32,
    anchor_skip: bool = False,
    eos_token_id: int | None = None,
    max_shard_bytes: int = 5 << 30,
) -> None:
    """Write the folder that transformers' ZayaForCausalLM loads; reading it and writing again gives the same bytes.

    transformers 5.24 sets the skip entry of every balancing bias to -1 after `from_pretrained` (its initialisation
    writes it without a guard). Training leaves it at -1 unless the skip class is balanced too. Where it moved,
    `anchor_skip` shifts all biases of a block so that it is -1 again: only their differences choose, so the model
    computes the same and survives that loading. Without it, the biases are written as they are, and the notes beside
    the weights say to load them once more. Raises ConfigError for the linear router.
    """
    folder = Path(folder)
    fields = config_to_hf(model.config, dtype=str(dtype).removeprefix("torch."), eos_token_id=eos_token_id)
    tensors = {}
    for name, value in model.state_dict().items():
        is_bias = name.endswith("balancing_bias")
        value = value.detach()
        if is_bias and anchor_skip:
            value = torch.cat((value[:-1] - (value[-1:] - SKIP_BIAS), value.new_tensor([SKIP_BIAS])))
        tensors[hf_name(name)] = value.to("cpu", torch.float32 if is_bias else dtype).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("model*.safetensors"), folder / _INDEX):
        old.unlink(missing_ok=True)
    _write_tensors(tensors, folder, max_shard_bytes)
    _write_json(folder / "config.json", fields)
    (folder / "README.md").write_text(_notes(model, tensors))


def _compare_names(wanted: Any, found: list[str], allowed: set[str]) -> None:
    """Raise CheckpointError for tensors that are missing, are there twice, or have no place."""
    problems = []
    if missing := sorted(wanted - set(found)):
        problems.append(f"{len(missing)} tensors are missing: {_some(missing)}")
    if extra := sorted(set(found) - wanted - allowed):
        problems.append(f"{len(extra)} tensors have no place in this config: {_some(extra)}")
    if twice := sorted(name for name, count in Counter(found).items() if count > 1):
        problems.append(f"{len(twice)} tensors are there twice: {_some(twice)}")
    if problems:
        raise CheckpointError("; ".join(problems))


def _some(names: list[str], separator: str = ", ") -> str:
    return separator.join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _tensor_files(folder: Path) -> list[Path]:
    if (folder / _SINGLE).exists():
        return [folder / _SINGLE]
    if (folder / _INDEX).exists():
        files = _read_json(folder / _INDEX).get("weight_map")
        if not isinstance(files, dict) or any(Path(str(file)).name != file for file in files.values()):
            raise CheckpointError(f"{folder / _INDEX} does not map tensors to files beside it")
        return [folder / file for file in sorted(set(files.values()))]
    if files := sorted(folder.glob("*.safetensors")):
        return files
    raise CheckpointError(f"{folder} holds no *.safetensors file")


def _names_in(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _read_tensors(files: list[Path]) -> Iterator[tuple[str, Tensor]]:
    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                yield name, file.get_tensor(name)


def _write_tensors(tensors: dict[str, Tensor], folder: Path, max_shard_bytes: int) -> None:
    """One file, or as many as needed with an index, as transformers names them."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > max_shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    if len(shards) == 1:
        save_file(tensors, folder / _SINGLE, metadata={"format": "pt"})
        return
    where = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        where |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    _write_json(folder / _INDEX, {"metadata": {"total_size": total}, "weight_map": where})


def _notes(model: Model, tensors: dict[str, Tensor]) -> str:
    moved = [t[-1].item() for name, t in tensors.items() if name.endswith("balancing_biases") and t[-1] != SKIP_BIAS]
    if moved:
        skip_bias = (
            "Here it is another value in some blocks, so load the weights once more, by `load_state_dict` from the"
            " safetensors file, or export again with the skip class anchored."
        )
    else:
        skip_bias = "Here it is -1 everywhere, so nothing changes."
    hint = "" if model.config.skip == "zero" else " Outputs differ for tokens that a router skips, and only for them."
    return _NOTES.format(skip_bias=skip_bias, skip=model.config.skip, skip_hint=hint)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return found


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
