"""The one schema of a run: the form, the REST body, the command line's TOML and the database's JSON all come from it.

Every field has a docstring (meaning and when to change it), bounds, and a unit where it has one. Importing this needs
nothing but pydantic, so the web process can read it without loading torch.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError


def _unit(name: str) -> dict[str, str]:
    return {"unit": name}


def _misfit(field: str, message: str) -> PydanticCustomError:
    """A rule over several fields, reported at the one to change."""
    return PydanticCustomError("misfit", "{message}", {"field": field, "message": message})


LayerType = Literal["full", "sliding"]


class Section(BaseModel):
    """A named group of fields; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class ModelConfig(Section):
    """The architecture of one ZAYA1 model (arXiv 2605.05365; field names follow transformers' ZayaConfig)."""

    vocab_size: int = Field(257, ge=2, le=1_048_576, json_schema_extra=_unit("tokens"))
    """Size of the vocabulary; must hold every id of the tokenizer. 257 is the byte vocabulary with its end mark."""

    hidden_size: int = Field(128, ge=8, le=16_384)
    """Width of the residual stream."""

    num_hidden_layers: int = Field(4, ge=1, le=256, json_schema_extra=_unit("blocks"))
    """Blocks, each one attention and one expert layer."""

    num_attention_heads: int = Field(4, ge=1, le=256, json_schema_extra=_unit("heads"))
    """Query heads of the compressed attention, after compression."""

    num_key_value_heads: int = Field(2, ge=1, le=256, json_schema_extra=_unit("heads"))
    """Key and value heads; must divide the query heads."""

    head_dim: int = Field(16, ge=4, le=512)
    """Width of one head; even, so that half of it can be rotated by RoPE."""

    cca_time0: int = Field(2, ge=1, le=16, json_schema_extra=_unit("tokens"))
    """Taps of the depthwise causal convolution over queries and keys."""

    cca_time1: int = Field(2, ge=1, le=16, json_schema_extra=_unit("tokens"))
    """Taps of the per-head grouped causal convolution that follows it."""

    num_experts: int = Field(8, ge=1, le=1024, json_schema_extra=_unit("experts"))
    """Experts of each block; the router chooses one of them, or the skip class, for each token."""

    moe_intermediate_size: int = Field(128, ge=8, le=65_536)
    """Width of one SwiGLU expert."""

    router_hidden_size: int = Field(32, ge=4, le=4096)
    """Width of the router's state, which is averaged over depth from block to block."""

    router: Literal["mlp", "linear"] = "mlp"
    """`mlp` is ZAYA1's router with depth averaging; `linear` is the usual one, there to compare against."""

    skip: Literal["identity", "zero"] = "identity"
    """What the skip class gives: the token itself times its probability (Zyphra), or nothing (transformers 5.24)."""

    max_position_embeddings: int = Field(4096, ge=1, le=16_777_216, json_schema_extra=_unit("tokens"))
    """Longest sequence the model is meant for."""

    rope_theta: float = Field(10_000.0, ge=1.0)
    """Base of the rotary embedding; ZAYA1 used 1e4 at 4K, 1e6 at 32K and 5e6 at 131K."""

    partial_rotary_factor: float = Field(0.5, gt=0.0, le=1.0)
    """Share of each head that is rotated."""

    layer_types: tuple[LayerType, ...] | None = None
    """Attention of each block, `full` or `sliding`; empty means full everywhere."""

    sliding_window: int | None = Field(None, ge=1, json_schema_extra=_unit("tokens"))
    """Tokens a sliding block sees, the current one included."""

    sliding_rope_theta: float = Field(10_000.0, ge=1.0)
    """Base of the rotary embedding in sliding blocks."""

    rms_norm_eps: float = Field(1e-5, gt=0.0, le=1e-2)
    """Added to the mean square in every RMSNorm."""

    tie_word_embeddings: bool = True
    """Use the embedding matrix as the output head."""

    attention_bias: bool = False
    """Give the attention's projections a bias."""

    lm_head_bias: bool = False
    """Give the output head a bias."""

    pad_token_id: int | None = Field(None, ge=0)
    """Id whose row of the embedding learns nothing from where it is read, as transformers has it; empty means none."""

    initializer_range: float = Field(0.02, gt=0.0, le=1.0)
    """Standard deviation of the initial weights."""

    key_temperature: float = Field(1.0, ge=0.0, le=100.0)
    """Initial temperature of the keys. Ours: ZAYA1's is not published; 0 would make attention start uniform."""

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.num_attention_heads % self.num_key_value_heads:
            raise _misfit(
                "num_key_value_heads",
                f"must divide num_attention_heads ({self.num_attention_heads}), {self.num_key_value_heads} does not",
            )
        if self.num_key_value_heads * self.head_dim % 2:
            raise _misfit("head_dim", "must be even with an odd number of key and value heads: half of them is shifted")
        rotated = int(self.head_dim * self.partial_rotary_factor)
        if rotated % 2:
            raise _misfit("partial_rotary_factor", f"must rotate an even number of channels, not {rotated}")
        return self

    @model_validator(mode="after")
    def _pad_token_fits(self) -> Self:
        if self.pad_token_id is not None and self.pad_token_id >= self.vocab_size:
            raise _misfit("pad_token_id", f"must be below vocab_size ({self.vocab_size})")
        return self

    @model_validator(mode="after")
    def _layer_types_fit(self) -> Self:
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise _misfit("layer_types", f"must name {self.num_hidden_layers} blocks, not {len(self.layer_types)}")
        if self.layer_types and "sliding" in self.layer_types and self.sliding_window is None:
            raise _misfit("sliding_window", "must be given, since layer_types has a sliding block")
        return self


class DataConfig(Section):
    """What the model reads."""

    path: str = Field("demo", min_length=1, max_length=4096)
    """A text file, a folder prepared by `prepare-data`, or `demo` for the text that comes with the trainer."""

    tokenizer: str = Field("bytes", min_length=1, max_length=4096)
    """`bytes`, or the path of a `tokenizer.json`; a prepared folder brings its own."""

    sequence_length: int = Field(128, ge=1, le=1_048_576, json_schema_extra=_unit("tokens"))
    """Tokens of one training sequence."""

    validation_fraction: float = Field(0.05, ge=0.0, le=0.5)
    """Share of the end of the data that is held out for evaluation."""


class OptimizerConfig(Section):
    """Muon on the matrices, AdamW on the rest (arXiv 2511.17127 §IV, arXiv 2605.05365 §IV-E)."""

    muon_learning_rate: float = Field(6e-4, gt=0.0, le=1.0)
    """Peak learning rate of the matrices; the update is scaled to AdamW's RMS, so it is on the same scale as below."""

    adamw_learning_rate: float = Field(6e-4, gt=0.0, le=1.0)
    """Peak learning rate of embeddings, convolutions, norms, scales and temperatures."""

    final_learning_rate_fraction: float = Field(1 / 3, ge=0.0, le=1.0)
    """Share of the peak that the cosine ends at; ZAYA1's first phase went from 6e-4 to 2e-4."""

    warmup_steps: int = Field(100, ge=0, json_schema_extra=_unit("steps"))
    """Steps of linear warm-up. Ours: ZAYA1's is not published."""

    muon_momentum: float = Field(0.95, ge=0.0, lt=1.0)
    """Momentum of Muon (with Nesterov). Ours: ZAYA1's is not published."""

    adamw_beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of AdamW's first moment. Ours."""

    adamw_beta2: float = Field(0.95, ge=0.0, lt=1.0)
    """Decay of AdamW's second moment. Ours."""

    adamw_eps: float = Field(1e-8, gt=0.0, le=1e-2)
    """Added to AdamW's denominator. Ours."""

    weight_decay: float = Field(0.1, ge=0.0, le=1.0)
    """Decoupled weight decay of matrices; vectors have none. Ours."""

    gradient_clip: float = Field(1.0, ge=0.0)
    """Largest norm of the whole gradient; 0 leaves it alone. Ours."""


class BalanceConfig(Section):
    """The router's balancing bias: its gradient is the load minus the fair share (arXiv 2605.05365 eq. 5)."""

    enabled: bool = True
    """Move the bias at all."""

    learning_rate: float = Field(1e-3, gt=0.0, le=1.0)
    """Step of AdamW on the bias. Ours: ZAYA1's is not published."""

    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of the first moment. Ours."""

    beta2: float = Field(0.999, ge=0.0, lt=1.0)
    """Decay of the second moment. Ours."""

    include_skip: bool = False
    """Count the skip class among those that should get a fair share."""


class PhaseConfig(Section):
    """A stretch of the run with data, length or rates of its own; what is left out is as in the other sections."""

    name: str = Field(min_length=1, max_length=100)
    """What the phase is called on the timeline."""

    steps: int | None = Field(None, ge=1, le=1_000_000_000, json_schema_extra=_unit("steps"))
    """Optimiser steps of the phase; give this or `tokens`."""

    tokens: int | None = Field(None, ge=1, le=10**15, json_schema_extra=_unit("tokens"))
    """Tokens of the phase, rounded up to whole steps; give this or `steps`."""

    mix: dict[str, float] = Field(default_factory=dict)
    """Share of each data path, `{"web": 0.8, "code": 0.2}`; shares are relative. Empty means data.path alone."""

    sequence_length: int | None = Field(None, ge=1, le=1_048_576, json_schema_extra=_unit("tokens"))
    """Tokens of one sequence."""

    global_batch_size: int | None = Field(None, ge=1, le=1_048_576, json_schema_extra=_unit("sequences"))
    """Sequences of one optimiser step over all processes."""

    micro_batch_size: int | None = Field(None, ge=1, le=65_536, json_schema_extra=_unit("sequences"))
    """Sequences one process takes at once."""

    rope_theta: float | None = Field(None, ge=1.0)
    """Base of the rotary embedding, raised when sequences become longer."""

    muon_learning_rate: float | None = Field(None, gt=0.0, le=1.0)
    """Peak learning rate of the matrices."""

    adamw_learning_rate: float | None = Field(None, gt=0.0, le=1.0)
    """Peak learning rate of the rest."""

    final_learning_rate_fraction: float | None = Field(None, ge=0.0, le=1.0)
    """Share of the peak that the cosine ends at."""

    warmup_steps: int | None = Field(None, ge=0, json_schema_extra=_unit("steps"))
    """Steps of linear warm-up; phases after the first have none unless they say so."""

    @model_validator(mode="after")
    def _has_one_length(self) -> Self:
        if (self.steps is None) == (self.tokens is None):
            raise _misfit("steps", "give either steps or tokens")
        return self

    @model_validator(mode="after")
    def _shares_are_positive(self) -> Self:
        if any(share <= 0 for share in self.mix.values()):
            raise _misfit("mix", "every share must be above 0; leave out what is not wanted")
        return self


class TrainConfig(Section):
    """How long, how much at once, and how carefully."""

    steps: int = Field(1000, ge=1, le=1_000_000_000, json_schema_extra=_unit("steps"))
    """Optimiser steps of the whole run, all phases together."""

    phases: tuple[PhaseConfig, ...] = ()
    """Stretches of the run with data, length or rates of their own, one after another; empty means one for all."""

    global_batch_size: int = Field(8, ge=1, le=1_048_576, json_schema_extra=_unit("sequences"))
    """Sequences of one optimiser step over all processes."""

    micro_batch_size: int = Field(8, ge=1, le=65_536, json_schema_extra=_unit("sequences"))
    """Sequences one process takes at once; smaller needs less memory and accumulates gradients."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the matrix products; weights and sums stay in fp32."""

    activation_checkpointing: bool = False
    """Keep only each block's input and compute the block again for its gradient: far less memory, a third more work."""

    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to train; `auto` takes a GPU (ROCm or CUDA) where there is one."""

    seed: int = Field(0, ge=0, le=2**63 - 1)
    """Seed of the weights and of the order of the data."""

    eval_every_steps: int = Field(200, ge=0, json_schema_extra=_unit("steps"))
    """Steps between evaluations on held-out data; 0 never evaluates."""

    eval_batches: int = Field(8, ge=1, le=100_000, json_schema_extra=_unit("batches"))
    """Batches of one evaluation."""

    log_every_steps: int = Field(1, ge=1, json_schema_extra=_unit("steps"))
    """Steps between metrics in the journal."""

    router_every_steps: int = Field(10, ge=1, json_schema_extra=_unit("steps"))
    """Steps between router loads in the journal; each one counts the tokens of all steps since the last."""


class CheckpointConfig(Section):
    """When the state is saved, and what is kept."""

    every_steps: int = Field(200, ge=0, json_schema_extra=_unit("steps"))
    """Steps between checkpoints; 0 saves only at the end and on stop."""

    keep_last: int = Field(3, ge=1, le=10_000, json_schema_extra=_unit("checkpoints"))
    """Newest checkpoints kept; older ones are removed once a newer one is verified."""

    keep_every_steps: int = Field(0, ge=0, json_schema_extra=_unit("steps"))
    """Keep for ever the checkpoints of steps that this divides; 0 keeps none for that reason."""

    keep_best: int = Field(0, ge=0, le=1000, json_schema_extra=_unit("checkpoints"))
    """Best checkpoints kept, by `best_metric`; only those whose step was measured can be among them."""

    best_metric: str = Field("eval/loss", min_length=1, max_length=250)
    """What the best are chosen by: a metric's name."""

    best_is: Literal["lowest", "highest"] = "lowest"
    """Whether a low or a high value is good."""

    verify: bool = True
    """Read every file back and compare checksums before a checkpoint is called verified."""


class WatchConfig(Section):
    """What is watched while training, and what is done about it; an event tells of each case."""

    on_nan: Literal["stop", "roll_back", "go_on"] = "stop"
    """When loss or gradient are no number the weights are left alone; then: end the run, go back to the last checkpoint
    and leave out the data since, or go on with the next batch."""

    on_spike: Literal["stop", "roll_back", "go_on"] = "go_on"
    """The same when the loss is far above the recent ones; `go_on` takes the step all the same."""

    spike_deviations: float = Field(20.0, ge=0.0, le=1e6)
    """Median absolute deviations (as σ) above the median of the recent losses that make a spike; 0 looks for none."""

    spike_window: int = Field(128, ge=16, le=100_000, json_schema_extra=_unit("steps"))
    """Recent losses that a spike is judged by."""

    max_roll_backs: int = Field(3, ge=0, le=1000)
    """Times a run goes back before it is stopped instead."""

    dead_expert_steps: int = Field(50, ge=0, le=1_000_000, json_schema_extra=_unit("steps"))
    """Steps without a token after which an expert is called dead; 0 never does."""

    stall_seconds: float = Field(600.0, ge=0.0, le=86_400.0, json_schema_extra=_unit("s"))
    """Longest a step or an evaluation may take before the attempt ends with the stacks in the log; 0 waits for ever."""


class ParallelConfig(Section):
    """How many processes, on how many nodes."""

    nodes: int = Field(1, ge=1, le=4096, json_schema_extra=_unit("nodes"))
    """Nodes the run is given, all or none."""

    processes_per_node: int = Field(1, ge=1, le=64, json_schema_extra=_unit("processes"))
    """Processes on each node; 8 on a node of eight MI300X."""

    context: int = Field(1, ge=1, le=1024, json_schema_extra=_unit("processes"))
    """Processes that share each sequence, every one with a run of its tokens; for long sequences."""

    sharding: Literal["none", "zero1", "fsdp"] = "none"
    """`zero1` shares the optimisers' state out over all processes, `fsdp` the experts' weights and gradients too."""


class RecoveryConfig(Section):
    """What happens when something dies."""

    max_restarts: int = Field(2, ge=0, le=1000, json_schema_extra=_unit("restarts"))
    """Times the run goes on from its last checkpoint after a process or a node died, before it counts as failed."""

    stop_grace_seconds: float = Field(60.0, ge=0.0, le=86_400.0, json_schema_extra=_unit("s"))
    """Time the trainer has to write its last checkpoint when it is asked to stop; then it is killed."""


@dataclass(frozen=True)
class Phase:
    """One phase of a run, nothing left out."""

    index: int
    name: str
    first_step: int
    steps: int
    mix: dict[str, float]
    sequence_length: int
    global_batch_size: int
    micro_batch_size: int
    rope_theta: float
    muon_learning_rate: float
    adamw_learning_rate: float
    final_learning_rate_fraction: float
    warmup_steps: int

    @property
    def end(self) -> int:
        """Steps done when the phase is over."""
        return self.first_step + self.steps

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimiser step over all processes."""
        return self.global_batch_size * self.sequence_length

    @property
    def tokens(self) -> int:
        """Tokens of the whole phase."""
        return self.steps * self.tokens_per_step


class RunConfig(Section):
    """Everything a training run needs to know."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    train: TrainConfig = Field(default_factory=TrainConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    balance: BalanceConfig = Field(default_factory=BalanceConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    watch: WatchConfig = Field(default_factory=WatchConfig)
    parallel: ParallelConfig = Field(default_factory=ParallelConfig)
    recovery: RecoveryConfig = Field(default_factory=RecoveryConfig)

    @property
    def num_processes(self) -> int:
        """Processes over all nodes."""
        return self.parallel.nodes * self.parallel.processes_per_node

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimiser step over all processes, in the first phase."""
        return self.phases[0].tokens_per_step

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases with everything filled in; a config without any has one."""
        given = self.train.phases or (PhaseConfig(name="all", steps=self.train.steps),)
        found: list[Phase] = []
        for index, phase in enumerate(given):
            found.append(self._resolve(phase, index, found[-1].end if found else 0))
        return tuple(found)

    def phase_at(self, step: int) -> Phase:
        """The phase that the step after `step` steps done belongs to; the last one when all are done."""
        return next((phase for phase in self.phases if step < phase.end), self.phases[-1])

    def model_at(self, step: int) -> ModelConfig:
        """The model as it is after `step` steps: phases may have changed its rotary base."""
        return self.model.model_copy(update={"rope_theta": self.phase_at(max(0, step - 1)).rope_theta})

    def _resolve(self, phase: PhaseConfig, index: int, first_step: int) -> Phase:
        def value(own: Any, otherwise: Any) -> Any:
            return otherwise if own is None else own

        length = value(phase.sequence_length, self.data.sequence_length)
        batch = value(phase.global_batch_size, self.train.global_batch_size)
        optimizer = self.optimizer
        return Phase(
            index=index,
            name=phase.name,
            first_step=first_step,
            steps=phase.steps or -(-(phase.tokens or 0) // (length * batch)),
            mix=phase.mix or {self.data.path: 1.0},
            sequence_length=length,
            global_batch_size=batch,
            micro_batch_size=value(phase.micro_batch_size, self.train.micro_batch_size),
            rope_theta=value(phase.rope_theta, self.model.rope_theta),
            muon_learning_rate=value(phase.muon_learning_rate, optimizer.muon_learning_rate),
            adamw_learning_rate=value(phase.adamw_learning_rate, optimizer.adamw_learning_rate),
            final_learning_rate_fraction=value(
                phase.final_learning_rate_fraction, optimizer.final_learning_rate_fraction
            ),
            warmup_steps=value(phase.warmup_steps, 0 if index else optimizer.warmup_steps),
        )

    @model_validator(mode="after")
    def _steps_add_up(self) -> Self:
        together = self.phases[-1].end
        if together != self.train.steps:
            raise _misfit("train.steps", f"the phases take {together} steps together, so this must be {together}")
        return self

    @model_validator(mode="after")
    def _batch_suffices(self) -> Self:
        for phase in self.phases:
            section = f"train.phases.{phase.index}" if self.train.phases else "train"
            shares = self.num_processes // self.parallel.context
            if phase.global_batch_size < shares:
                raise _misfit(
                    f"{section}.global_batch_size",
                    f"must be at least {shares}, one for each process, not {phase.global_batch_size}",
                )
        return self

    @model_validator(mode="after")
    def _context_divides(self) -> Self:
        context = self.parallel.context
        if self.num_processes % context:
            raise _misfit("parallel.context", f"must divide the {self.num_processes} processes, {context} does not")
        lookback = max(1, self.model.cca_time0 + self.model.cca_time1 - 2)
        shortest = min(phase.sequence_length for phase in self.phases) // context
        if shortest < lookback:
            text = f"leaves {shortest} tokens to a process, fewer than the {lookback} the convolutions look back"
            raise _misfit("parallel.context", text)
        return self

    @model_validator(mode="after")
    def _sharding_fits(self) -> Self:
        if self.parallel.sharding != "fsdp":
            return self
        if self.num_processes > self.model.num_experts:
            few = f"shares {self.model.num_experts} experts out, too few for {self.num_processes} processes: take zero1"
            raise _misfit("parallel.sharding", few)
        for phase in self.phases:
            least, rest = divmod(phase.global_batch_size, self.num_processes // self.parallel.context)
            # Each pass gathers experts from all processes, so none may have a pass more than the others.
            if rest and least % phase.micro_batch_size == 0:
                section = f"train.phases.{phase.index}" if self.train.phases else "train"
                text = f"must not divide {least}: some processes take a sequence more, and fsdp needs equal passes"
                raise _misfit(f"{section}.micro_batch_size", text)
        return self

    @model_validator(mode="after")
    def _sequence_fits(self) -> Self:
        for phase in self.phases:
            if phase.sequence_length > self.model.max_position_embeddings:
                raise _misfit(
                    f"train.phases.{phase.index}.sequence_length" if self.train.phases else "data.sequence_length",
                    f"must be at most model.max_position_embeddings ({self.model.max_position_embeddings})",
                )
        return self
