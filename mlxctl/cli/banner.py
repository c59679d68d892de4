"""The start-up lines of `mlxctl serve`: address, models, an example request."""

import json
import logging
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlxctl import __version__
from mlxctl.cli.lan_urls import lan_urls, print_qr_code
from mlxctl.inference import ServedModel
from mlxctl.ir.errors import describe_bytes
from mlxctl.library import Fit
from mlxctl.server import Address
from mlxctl.server.policy.access import describe_access
from mlxctl.state.settings import Settings
from mlxctl.terminal_text import echo

_log = logging.getLogger(__name__)

_DEMO = """\
         This is a tiny demo model: it greets, calls tools, repeats codewords,
         and knows little else.
         `mlxctl models recommend` lists real ones that fit this machine,
         and `mlxctl serve NAME` serves one."""


class Banner:
    """Prints start-up events on standard output."""

    def __init__(self) -> None:
        self._requires_keys = False
        self._when_loaded = "at its first request"
        self._allowed_hosts: tuple[str, ...] = ()
        self._has_page = True

    def listening(self, address: Address, settings: Settings, *, requires_keys: bool) -> None:
        """Print the address, before the model is loaded."""
        echo(f"mlxctl {__version__} on {address.url}")
        self._requires_keys = requires_keys
        self._allowed_hosts, self._has_page = settings.server.allowed_hosts, settings.server.status_page
        if settings.pool.preload:
            self._when_loaded = "next, if it fits beside the others (--preload)"
        echo(f"  access {describe_access(settings.server, requires_keys=requires_keys)}")
        for note in _notes(settings):
            echo(f"  note   {note}")
        echo(f"  wait   {_describe_wait(settings)} ...")

    def ready(
        self,
        address: Address,
        models: tuple[ServedModel, ...],
        fits: Mapping[str, Fit],
        *,
        seconds: float,
    ) -> None:
        """Print the models, the start-up time, further URLs, an example request."""
        names: dict[Path, str] = {}
        for model in models:
            name = names.setdefault(model.facts.path, model.name)
            if name != model.name:
                echo(f"  alias  {model.name}, another name of {name}")
                continue
            later = "" if model.state == "loaded" else f", loaded {self._when_loaded}"
            if model.state == "failed":
                later = f", cannot be served: {model.problem}"
            echo(f"  model  {model.name}, context {model.facts.context_length:,} tokens{later}")
            if model.memory is not None:
                echo(f"         {_describe_fit(model, fits.get(model.name))}")
            if model.adapter_verdict is not None and model.adapter_verdict.sampling.source == "fallback":
                echo(f"         samples with {model.adapter_verdict.sampling.summary()}")
            if model.is_demo:
                echo(_DEMO)
        echo(f"  ready  after {seconds:.1f} s")
        urls = lan_urls(address, self._allowed_hosts)
        for index, url in enumerate(urls):
            echo(f"  {'       ' if index else 'lan    '}{url}")
        usable = (model for model in models if model.state != "failed" and model.facts.purpose == "text")
        if (first := next(usable, None)) is not None:
            echo(f"  try    {_curl_command(address, first.name, requires_keys=self._requires_keys)}")
        if urls and self._has_page:
            print_qr_code(urls[0])


class StartLog:
    """Logs the start-up events, for a log whose lines are JSON."""

    def listening(self, address: Address, settings: Settings, *, requires_keys: bool) -> None:
        """Log the address, before the model is loaded."""
        _log.info("mlxctl %s on %s", __version__, address.url, extra={"fields": {"url": address.url}})
        _log.info("access: %s", describe_access(settings.server, requires_keys=requires_keys))
        for note in _notes(settings):
            _log.warning(note)
        _log.info(_describe_wait(settings))

    def ready(
        self,
        address: Address,
        models: tuple[ServedModel, ...],
        fits: Mapping[str, Fit],  # noqa: ARG002
        *,
        seconds: float,
    ) -> None:
        """Log the models and the start-up time."""
        fields = {
            "url": address.url,
            "start_seconds": round(seconds, 3),
            "models": [
                {
                    "name": model.name,
                    "state": model.state,
                    "max_safe_context": model.memory.max_safe_context if model.memory else None,
                }
                for model in models
            ],
        }
        _log.info("ready after %.1f s", seconds, extra={"fields": fields})


def _notes(settings: Settings) -> Iterator[str]:
    """Yield what the operator should know about these settings."""
    if settings.server.log_content:
        yield (
            "the log has all prompts and answers (--log-content)"
            if settings.server.log_level == "debug"
            else "--log-content shows prompts and answers only with --log-level debug"
        )
    if settings.audit.debug:
        yield (
            "the audit log has all prompts and answers as text (--audit-debug)"
            if settings.audit.enabled
            else "--audit-debug has no effect without --audit"
        )


def _describe_fit(model: ServedModel, fit: Fit | None) -> str:
    """Return memory, longest conversation and speed of a loaded model."""
    memory = model.memory
    assert memory is not None, "a loaded model has memory"
    text = f"{describe_bytes(memory.weights_bytes)} of weights"
    if fit is not None:
        text += f" in a memory limit of {describe_bytes(fit.machine.usable_bytes)}"
    safe = memory.max_safe_context
    if safe is not None:
        all_of_it = ", its whole context" if safe == model.facts.context_length else ""
        text += f"; longest conversation {safe:,} tokens{all_of_it}"
    if fit is not None and fit.measured is not None:
        text += f"; {fit.measured.decode_tokens_per_second:.1f} tokens/s measured"
    elif fit is not None and fit.typical_predicted_tokens_per_second is not None:
        text += f"; at most {fit.typical_predicted_tokens_per_second:.1f} tokens/s"
    return text


def _describe_wait(settings: Settings) -> str:
    if settings.model.probe_unknown:
        return "probing models that were never probed, then loading"
    if settings.model.path or settings.pool.models:
        return f"loading model {str(settings.model.path or settings.pool.models[0])!r}"
    return "starting the engine" if settings.pool.dirs else "loading the built-in demo model"


def _curl_command(address: Address, model: str, *, requires_keys: bool) -> str:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}, ensure_ascii=False
    )
    # zsh takes the brackets of an IPv6 address for a pattern.
    url = shlex.quote(f"{address.url}/v1/chat/completions")
    key = " -H 'Authorization: Bearer YOUR_KEY'" if requires_keys else ""
    return f"curl {url} -H 'Content-Type: application/json'{key} -d {shlex.quote(body)}"
