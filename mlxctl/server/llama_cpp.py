"""Generation in llama.cpp's protocol."""

from mlxctl.ir import SamplingParams
from mlxctl.protocols.llama_cpp.formatter import LlamaFormatter
from mlxctl.server.generation import GenerationResource


class LlamaResource(GenerationResource[LlamaFormatter]):
    """Generates; the answer repeats the final sampling values."""

    def started(self, formatter: LlamaFormatter, sampling: SamplingParams) -> None:
        """Pass the final sampling values to the formatter."""
        formatter.set_sampling(sampling)
