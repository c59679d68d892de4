"""The commands of `mlxctl bench` that measure."""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mlxctl.cli.bench.options import AsJson, Out, Rounds, SharedOptions, Warmups
from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Scenario


def scenario_command(make_scenario: Callable[..., "Scenario"]) -> Callable[..., None]:
    """Return a command that measures the scenario of `make_scenario`.

    Its options are the parameters of `make_scenario`, then the fields of SharedOptions: they are read off the
    signature.
    """

    own, shared = (inspect.signature(each).parameters for each in (make_scenario, SharedOptions))

    @wraps(make_scenario)
    def measure(**values: Any) -> None:
        options = SharedOptions(**{name: values.pop(name) for name in shared})
        with report_errors():
            from mlxctl.cli.bench.run import run_scenario

            run_scenario(make_scenario(**values), options)

    measure.__signature__ = inspect.Signature([*own.values(), *shared.values()])  # type: ignore[attr-defined]
    return measure


@command(epilog="Example: mlxctl bench throughput --streams 1 --streams 8 -- --prefix-cache 0")
@scenario_command
def throughput(
    streams: Annotated[
        list[int], Option(min=1, max=1024, metavar="NUMBER", help="Streams at once; may be repeated.")
    ] = [1, 4, 16],  # noqa: B006
    answer_tokens: Annotated[int, Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    prompt_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of the long prompt.")] = 2048,
) -> "Scenario":
    """Tokens per second: one stream, many streams, a long prompt."""
    from mlxctl.bench.scenarios import Throughput

    unique = tuple(dict.fromkeys(streams))
    return Throughput(streams=unique, answer_tokens=answer_tokens, prompt_tokens=prompt_tokens)


@command(epilog="Example: mlxctl bench latency --url http://127.0.0.1:8080 --requests 50")
@scenario_command
def latency(
    requests: Annotated[
        int, Option(min=1, max=10_000, metavar="NUMBER", help="Requests a round, one after the other.")
    ] = 20,
    prompt_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each prompt.")] = 128,
    answer_tokens: Annotated[int, Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 64,
) -> "Scenario":
    """Latency of one client: first token, next token, whole answer."""
    from mlxctl.bench.scenarios import Latency

    return Latency(num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens)


@command(epilog="Example: mlxctl bench prefix --prompt-tokens 16000 --model mlx-community/Qwen3-8B-4bit")
@scenario_command
def prefix(
    prompt_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of the shared text.")] = 2048,
    answer_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 8,
    restart: Annotated[
        bool, Option(help="Restart the server in every round, and repeat the request.")
    ] = True,
) -> "Scenario":
    """What the prefix cache saves: cold, warm, after a restart."""
    from mlxctl.bench.scenarios import Prefix

    return Prefix(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart)


@command(epilog="Example: mlxctl bench agents --turns 30 --system-tokens 8000 --url http://127.0.0.1:8080")
@scenario_command
def agents(
    turns: Annotated[
        int,
        Option(min=0, max=500, metavar="NUMBER", help="Tool results of the session, one after the other."),
    ] = 12,
    agents_at_once: Annotated[
        int, Option(min=1, max=256, metavar="NUMBER", help="Agents that then start at once.")
    ] = 4,
    system_tokens: Annotated[
        int, Option(min=1, metavar="TOKENS", help="Length of their shared instructions.")
    ] = 2000,
    result_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each tool result.")] = 300,
    answer_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 48,
    trace: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Replay recorded sessions instead: a file or directory of agent traces (.json, as AIPerf's) "
            "or chat requests (.jsonl).",
        ),
    ] = None,
    think_seconds: Annotated[
        float,
        Option(min=0, metavar="SECONDS", help="Keep recorded waits between turns up to this length."),
    ] = 0.0,
    scale: Annotated[
        float, Option(min=0.001, max=1, metavar="SHARE", help="Share of the recorded lengths to use.")
    ] = 1.0,
) -> "Scenario":
    """Coding agents: one session, then several at once on a cold prefix."""
    from mlxctl.bench.scenarios import Agents, AgentTrace
    from mlxctl.bench.traces import read_traces

    if trace is not None:
        return AgentTrace(
            path=trace,
            sessions=tuple(read_traces(trace)),
            num_agents=agents_at_once,
            max_think_seconds=think_seconds,
            scale=scale,
        )
    return Agents(
        num_turns=turns,
        num_agents=agents_at_once,
        system_tokens=system_tokens,
        result_tokens=result_tokens,
        answer_tokens=answer_tokens,
    )


@command(epilog="Example: mlxctl bench arrivals --rate 4 --requests 100 --against http://127.0.0.1:8081")
@scenario_command
def arrivals(
    rate: Annotated[
        float, Option(min=0.01, max=1000, metavar="NUMBER", help="Requests a second, on average.")
    ] = 2.0,
    requests: Annotated[int, Option(min=1, max=10000, metavar="NUMBER", help="Requests a round.")] = 32,
    prompt_tokens: Annotated[
        int, Option(min=1, metavar="TOKENS", help="Length of the longest prompts.")
    ] = 512,
    answer_tokens: Annotated[
        int, Option(min=2, metavar="TOKENS", help="Length of the longest answers.")
    ] = 128,
    ttft_ms: Annotated[
        float, Option(min=1, metavar="MS", help="Latest first token of a good request.")
    ] = 1000.0,
    token_ms: Annotated[
        float, Option(min=0.1, metavar="MS", help="Longest mean time of its further tokens.")
    ] = 100.0,
) -> "Scenario":
    """Requests at random times at a given rate, and their goodput."""
    from mlxctl.bench.scenarios import Arrivals

    return Arrivals(
        rate=rate,
        num_requests=requests,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        ttft_ms=ttft_ms,
        token_ms=token_ms,
    )


@command(epilog="Example: mlxctl bench burst --requests 8 --against http://127.0.0.1:8081")
@scenario_command
def burst(
    requests: Annotated[int, Option(min=1, max=1024, metavar="NUMBER", help="Requests sent at once.")] = 16,
    prompt_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each prompt.")] = 100,
    answer_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each answer.")] = 256,
    restart: Annotated[
        bool, Option(help="Restart the server in every round, for a burst on a fresh server.")
    ] = True,
) -> "Scenario":
    """Many new prompts at once, after a restart and after one stream."""
    from mlxctl.bench.scenarios import Burst

    return Burst(
        num_requests=requests, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, restarts=restart
    )


@command(epilog="Example: mlxctl bench contention --prompt-tokens 30000 --against http://127.0.0.1:8081")
@scenario_command
def contention(
    requests: Annotated[
        int, Option(min=1, max=1000, metavar="NUMBER", help="Short requests in each situation.")
    ] = 5,
    prompts: Annotated[int, Option(min=1, max=256, metavar="NUMBER", help="Long prompts sent at once.")] = 1,
    pause: Annotated[
        float, Option(min=0, max=600, metavar="SECONDS", help="Time between two short requests.")
    ] = 0.0,
    prompt_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of each long prompt.")] = 8192,
    answer_tokens: Annotated[int, Option(min=1, metavar="TOKENS", help="Length of the short answers.")] = 6,
    watch: Annotated[
        float,
        Option(min=0.05, max=600, metavar="SECONDS", help="Time for which the stream is measured alone."),
    ] = 1.0,
) -> "Scenario":
    """A short request and a decoding stream beside a long prefill."""
    from mlxctl.bench.scenarios import Contention

    return Contention(
        num_requests=requests,
        num_prompts=prompts,
        pause_seconds=pause,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        watch_seconds=watch,
    )


@command(epilog="Example: mlxctl bench mixed --clients 16 --requests 100 --seed 7")
@scenario_command
def mixed(
    requests: Annotated[int, Option(min=1, max=10000, metavar="NUMBER", help="Requests a round.")] = 32,
    clients: Annotated[
        int,
        Option(min=1, max=1024, metavar="NUMBER", help="Clients that send requests at the same time."),
    ] = 8,
    prompt_tokens: Annotated[
        int, Option(min=1, metavar="TOKENS", help="Length of the longest prompts.")
    ] = 2048,
    answer_tokens: Annotated[
        int, Option(min=1, metavar="TOKENS", help="Length of the longest answers.")
    ] = 256,
) -> "Scenario":
    """Mixed prompt and answer lengths from several clients."""
    from mlxctl.bench.scenarios import Mixed

    return Mixed(
        num_requests=requests, num_clients=clients, prompt_tokens=prompt_tokens, answer_tokens=answer_tokens
    )


@command(epilog="Example: mlxctl bench speculation --model MODEL -- --speculation auto")
@scenario_command
def speculation(
    streams: Annotated[
        int, Option(min=1, max=256, metavar="NUMBER", help="Streams at once in the batch.")
    ] = 8,
    document_tokens: Annotated[
        int, Option(min=16, metavar="TOKENS", help="Length of each document in a prompt.")
    ] = 400,
    answer_tokens: Annotated[int, Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
) -> "Scenario":
    """Answers with and without speculative decoding, in turn."""
    from mlxctl.bench.scenarios import Speculation

    return Speculation(num_streams=streams, document_tokens=document_tokens, answer_tokens=answer_tokens)


ProbedModel = Annotated[
    str, Argument(metavar="MODEL", help="A model of the library, an alias, or a directory.")
]


@command(epilog="Example: mlxctl bench speech --url http://127.0.0.1:8080 --against http://127.0.0.1:8000")
@scenario_command
def speech(
    requests: Annotated[
        int, Option(min=1, max=100, metavar="NUMBER", help="Texts a round, one after the other.")
    ] = 3,
    at_once: Annotated[int, Option(min=1, max=64, metavar="NUMBER", help="Texts at once after them.")] = 4,
    words: Annotated[int, Option(min=1, max=500, metavar="NUMBER", help="Length of each text.")] = 36,
    voice: Annotated[
        str | None, Option(metavar="NAME", help="Voice to use.  [default: the server's]")
    ] = None,
    chat_model: Annotated[
        str | None,
        Option(metavar="NAME", help="Model of the stream beside.  [default: the first one that chats]"),
    ] = None,
) -> "Scenario":
    """Text to speech: first audio and real-time factor.

    One text after the other, several at once, and beside a decoding stream of a chat model.
    """
    from mlxctl.bench.scenarios import Speech

    return Speech(num_requests=requests, num_at_once=at_once, words=words, voice=voice, chat_model=chat_model)


@command(epilog="Example: mlxctl bench probe mlx-community/Qwen3-8B-4bit --rounds 3")
def probe(
    model: ProbedModel, rounds: Rounds = 5, warmups: Warmups = 1, out: Out = None, as_json: AsJson = False
) -> None:
    """Duration of `mlxctl probe` for a model, by phase.

    Each round is the whole command without stored results. Its findings are not stored.
    """
    with report_errors():
        from mlxctl.bench.probe import run_probe_bench
        from mlxctl.cli.bench.run import run_and_store

        run = partial(run_probe_bench, model, num_rounds=rounds, num_warmups=warmups)
        run_and_store(
            lambda observer: run(observer=observer), "probe", num_rounds=rounds, out=out, as_json=as_json
        )


@command(epilog="Example: mlxctl bench transcription --file talk.mp3 --model whisper:turbo")
@scenario_command
def transcription(
    files: Annotated[
        list[Path], Option("--file", metavar="FILE", offers="file", help="Audio file; may be repeated.")
    ],
) -> "Scenario":
    """Transcription: speed, and the first text of a stream.

    A round sends the files one after the other, then the first one again as a stream.
    """
    from mlxctl.bench.scenarios.transcription import Recording, Transcription
    from mlxctl.ir.errors import UsageError

    if missing := [str(file) for file in files if not file.is_file()]:
        raise UsageError(f"there is no file {missing[0]!r}")
    return Transcription(recordings=tuple(map(Recording.read, files)))
