"""`mlxctl bench`: measure servers, compare and report results."""

from mlxctl.cli.commands import LazyCommand, lazy_group

COMMANDS = {
    "throughput": LazyCommand(
        "mlxctl.cli.bench.scenarios:throughput", "Tokens per second: one stream, many streams, a long prompt."
    ),
    "latency": LazyCommand(
        "mlxctl.cli.bench.scenarios:latency", "Latency of one client: first token, next token, whole answer."
    ),
    "prefix": LazyCommand(
        "mlxctl.cli.bench.scenarios:prefix", "What the prefix cache saves: cold, warm, after a restart."
    ),
    "agents": LazyCommand(
        "mlxctl.cli.bench.scenarios:agents",
        "Coding agents: one session turn by turn, then several at once on a cold prefix.",
    ),
    "arrivals": LazyCommand(
        "mlxctl.cli.bench.scenarios:arrivals", "Requests at random times, and the share served well."
    ),
    "burst": LazyCommand(
        "mlxctl.cli.bench.scenarios:burst", "Many new prompts at once: fresh, and after one stream alone."
    ),
    "contention": LazyCommand(
        "mlxctl.cli.bench.scenarios:contention",
        "A short request and a decoding stream beside a long prefill.",
    ),
    "mixed": LazyCommand(
        "mlxctl.cli.bench.scenarios:mixed", "Mixed prompt and answer lengths from several clients."
    ),
    "speculation": LazyCommand(
        "mlxctl.cli.bench.scenarios:speculation", "Answers with and without speculative decoding, in turn."
    ),
    "speech": LazyCommand(
        "mlxctl.cli.bench.scenarios:speech", "Text to speech: first audio, real-time factor, several at once."
    ),
    "probe": LazyCommand(
        "mlxctl.cli.bench.scenarios:probe", "Duration of `mlxctl probe` for a model, by phase."
    ),
    "transcription": LazyCommand(
        "mlxctl.cli.bench.scenarios:transcription", "Transcription of audio files: speed, first text."
    ),
    "compare": LazyCommand(
        "mlxctl.cli.bench.results:compare", "Compare two stored results; fail when a figure got worse."
    ),
    "report": LazyCommand(
        "mlxctl.cli.bench.results:report", "Render stored results as Markdown with SVG charts."
    ),
}
app = lazy_group(
    "bench",
    COMMANDS,
    example="mlxctl bench latency --model mlx-community/Qwen3-8B-4bit --against http://127.0.0.1:8000",
)
