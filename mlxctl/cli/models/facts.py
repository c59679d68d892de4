"""The text output of `mlxctl models info`."""

import shlex
from datetime import datetime

from mlxctl.cli.console import console
from mlxctl.cli.models.tables import WIDE, facts_table
from mlxctl.cli.probe.report import findings_table, when
from mlxctl.ir import AdapterVerdict, SpeechRecipe, TranscriptionRecipe
from mlxctl.ir.errors import describe_bytes
from mlxctl.ir.models import media_support
from mlxctl.ir.transcription import SAMPLE_RATE
from mlxctl.library import ModelDescription
from mlxctl.library.capability_lookup import ProbedModel
from mlxctl.library.draft_models import Drafters
from mlxctl.library.runtimes import text_package
from mlxctl.library.weights import format_parameters
from mlxctl.state.stores import MeasuredSpeed


def print_facts(
    model: ModelDescription,
    known: ProbedModel,
    verdict: AdapterVerdict | None,
    speed: MeasuredSpeed | None,
    drafters: Drafters | None,
    *,
    given_name: str,
) -> None:
    """Print the facts of a model's files, then its probe findings.

    `verdict` is what the adapter detected in the chat template; `speed` was measured on this machine;
    `drafters` can draft for it; `given_name` is the name on the command line.
    """
    weights = model.weights
    facts = [
        ("model", model.name),
        ("directory", str(model.path)),
        ("kind", _because(model)),
        ("family", model.detection.family or "unknown"),
        ("model_type", model.model_type or "unknown"),
        (
            "runs with",
            ", ".join(model.runtimes) or "no installed package" if model.runtimes is not None else "unknown",
        ),
        *_class(model),
        ("on disk", describe_bytes(model.disk_bytes)),
        ("parameters", format_parameters(weights.num_parameters) if weights else "unknown"),
        (
            "weights",
            (model.number_format or "–")
            + (f", {weights.bits_per_weight:.2f} bits per parameter" if weights else ""),
        ),
        *(_audio_facts(model) or _text_facts(model, drafters, verdict, speed, given_name)),
        *_media(known, verdict),
        ("probed", _probed(known, shlex.quote(given_name))),
    ]
    out = console(width=WIDE)
    out.print(facts_table(facts))
    if known.findings:
        out.print()
        out.print(findings_table(known.findings))


def _text_facts(
    model: ModelDescription,
    drafters: Drafters | None,
    verdict: AdapterVerdict | None,
    speed: MeasuredSpeed | None,
    given_name: str,
) -> list[tuple[str, str]]:
    return [
        ("context", f"{model.context_length:,} tokens" if model.context_length else "unknown"),
        *_vectors(model),
        ("template", _template(model)),
        ("cache", _cache(model)),
        *_experts(model),
        *_drafters(drafters),
        ("speed", _speed(speed, shlex.quote(given_name))),
        ("served as", verdict.summary() if verdict else "unknown"),
        ("sampling", verdict.sampling.summary() if verdict else "unknown"),
    ]


def _media(known: ProbedModel, verdict: AdapterVerdict | None) -> list[tuple[str, str]]:
    """Return which media a language model answers to."""
    if verdict is None or not (verdict.takes_images or verdict.takes_audio):
        return []
    found = media_support(known.verdicts, images=verdict.takes_images, audio=verdict.takes_audio)
    words = {True: "yes", False: "no", None: "not probed"}
    return [("media", ", ".join(f"{name}: {words[support]}" for name, support in found.items()))]


def _audio_facts(model: ModelDescription) -> list[tuple[str, str]]:
    if model.speech is not None:
        return _speech(model.speech)
    return _transcription(model.transcription) if model.transcription is not None else []


def _transcription(recipe: TranscriptionRecipe) -> list[tuple[str, str]]:
    """Return what a transcription model can do."""
    abilities = {
        "word times": recipe.has_word_times,
        "takes a prompt": recipe.takes_prompt,
        "takes a temperature": recipe.takes_temperature,
        "translates to English": recipe.translates,
        "only finds the times of known words": recipe.purpose == "alignment",
        "only tells speakers apart": recipe.purpose == "diarization",
    }
    return [
        ("languages", ", ".join(recipe.languages or ()) or "no choice"),
        ("window", f"{recipe.window_samples / SAMPLE_RATE:g} seconds"),
        ("transcripts", ", ".join(name for name, can in abilities.items() if can) or "text only"),
    ]


def _speech(recipe: SpeechRecipe) -> list[tuple[str, str]]:
    """Return what a speech model can do."""
    abilities = {
        "clones voices": recipe.clones_voices,
        "follows instructions": recipe.follows_instructions,
        "takes a speed": recipe.takes_speed,
    }
    needs = f"none; a request needs {recipe.requires}" if recipe.requires else "one, without a name"
    return [
        ("voices", ", ".join(recipe.voices) or needs),
        ("languages", ", ".join(recipe.languages) or "no choice"),
        ("audio", f"{recipe.sample_rate:,} samples a second"),
        ("speech", ", ".join(name for name, can in abilities.items() if can) or "text only"),
    ]


def _class(model: ModelDescription) -> list[tuple[str, str]]:
    """Say what is tried with a class that mlx-lm does not have."""
    is_text = model.embedding is None and model.detection.kind in ("text", "vision", "unknown")
    if not (is_text and model.model_type and text_package(model.model_type) == "mlx-vlm"):
        return []
    tried = "batches and prefix cache are tried at each load"
    where = "the finding trimmable_cache, /v1/models and the log say what is not used"
    return [("class", f"mlx-vlm's; {tried}: {where}")]


def _experts(model: ModelDescription) -> list[tuple[str, str]]:
    experts = model.experts
    return [("experts", f"{experts.num}, {experts.num_active} of them for each token")] if experts else []


def _drafters(drafters: Drafters | None) -> list[tuple[str, str]]:
    if drafters is None:
        return []
    mtp_head = ["its MTP head"] if drafters.has_mtp_head else []
    heads = [f"{name} (MTP head)" for name in drafters.mtp_heads]
    return [("drafters", ", ".join(["prompt lookup", *mtp_head, *heads, *drafters.draft_models]))]


def _speed(speed: MeasuredSpeed | None, given_name: str) -> str:
    if speed is None:
        return f"not measured; to measure it: mlxctl bench throughput --model {given_name}"
    moment = datetime.fromtimestamp(speed.measured_at).astimezone()
    prompt = speed.prompt_tokens_per_second
    return (
        f"{speed.decode_tokens_per_second:.1f} tokens/s"
        + (f", prompts {prompt:.0f} tokens/s" if prompt else "")
        + f", measured {moment:%Y-%m-%d}"
    )


def _probed(known: ProbedModel, given_name: str) -> str:
    if known.record is None:
        return f"no; to test its capabilities: mlxctl probe {given_name}"
    return f"{when(known.record)}; all evidence: mlxctl probe {given_name} --show"


def _because(model: ModelDescription) -> str:
    kind, evidence = model.detection.kind, model.detection.evidence
    return f"{kind} ({evidence[0]})" if evidence else kind


def _vectors(model: ModelDescription) -> list[tuple[str, str]]:
    recipe = model.embedding
    if recipe is None:
        return []
    if recipe.scores_pairs:
        return [("scores", "a query with a document (/v1/rerank)")]
    dimensions = f"{model.dimensions:,} numbers" if model.dimensions else "of unknown length"
    pooled = " and ".join(way.replace("_", " ") for way in recipe.pooling)
    words = [dimensions, f"pooled by {pooled}", "normalized" if recipe.is_normalized else "not normalized"]
    if recipe.prompts:
        words.append(f"prompts {', '.join(sorted(recipe.prompts))}")
    return [("vectors", ", ".join(words))]


def _template(model: ModelDescription) -> str:
    if not model.has_template:
        return "none"
    return "takes tools" if model.takes_tools else "takes no tools"


def _cache(model: ModelDescription) -> str:
    cache = model.cache
    if cache is None:
        return "unknown"
    if cache.is_empty:
        return "none: texts are processed in one pass"
    words = [f"{cache.bytes_per_token:,} bytes per token"] if cache.bytes_per_token else []
    if cache.window_tokens:
        words.append(f"{cache.window_bytes_per_token:,} more for the last {cache.window_tokens:,} tokens")
    if cache.state_bytes != 0:
        amount = describe_bytes(cache.state_bytes) if cache.state_bytes else "unknown size"
        words.append(f"a state of {amount}")
    return ", ".join(words)
