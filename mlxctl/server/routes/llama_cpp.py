"""Routes of llama.cpp, and those of its tokenizer that vLLM has too."""

from mlxctl.protocols import OPENAI
from mlxctl.protocols.compat.llama_cpp.routes import LLAMA_CPP
from mlxctl.protocols.compat.llama_cpp.schema import LoraAdapter, ServerProperties, Slot
from mlxctl.protocols.openai.responses.compaction import TokenCountOfResponse
from mlxctl.protocols.tokenization import (
    Detokenized,
    DetokenizeRequest,
    RenderedPrompt,
    TemplateRequest,
    Tokenized,
    TokenizeRequest,
    TokenList,
)
from mlxctl.server.http.route import Operation, Query, Route
from mlxctl.server.resources.compat.llama_cpp import (
    LoraAdaptersResource,
    PropertiesResource,
    SlotResource,
    SlotsResource,
)
from mlxctl.server.resources.text.tokenization import (
    ChatTokenCountResource,
    DetokenizeResource,
    TemplateResource,
    TokenizeResource,
    TokenizerInfo,
    TokenizerInfoResource,
)

_TOKENIZER_ERRORS = (404, 429, 500, 503, 504)


ROUTES = (
    Route(
        path="/v1/chat/completions/input_tokens",
        aliases=("/chat/completions/input_tokens",),
        resource=lambda context: ChatTokenCountResource(context.services.inference, context.settings),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Count the tokens of a chat completion's prompt (llama.cpp)",
                body=TemplateRequest,
                answer=TokenCountOfResponse,
                errors=_TOKENIZER_ERRORS,
            ),
        ),
    ),
    Route(
        path="/slots",
        resource=lambda context: SlotsResource(context.services.inference),
        protocol=LLAMA_CPP,
        access="requests:read",
        operations=(
            Operation(
                method="get",
                summary="List places for requests, with the open requests in them (llama.cpp)",
                answer=list[Slot],
                query=(Query(name="fail_on_no_slot", schema={"type": "string"}),),
                errors=(503,),
            ),
        ),
    ),
    Route(
        path="/slots/{slot}",
        resource=lambda _: SlotResource(),
        protocol=LLAMA_CPP,
        access="cache:write",
        operations=(
            Operation(
                method="post",
                summary="Always refused: the prefix cache keeps prompts by itself",
                answer=Slot,
            ),
        ),
    ),
    Route(
        path="/lora-adapters",
        resource=lambda context: LoraAdaptersResource(context.services.inference.models),
        protocol=LLAMA_CPP,
        access="adapters:write",
        operations=(
            Operation(
                method="get", summary="List the mounted LoRA adapters (llama.cpp)", answer=list[LoraAdapter]
            ),
            Operation(
                method="post",
                summary="Always refused: each request decides the scales of its adapters",
                answer=list[LoraAdapter],
            ),
        ),
    ),
    Route(
        path="/tokenize",
        aliases=("/v1/tokenize",),
        resource=lambda context: TokenizeResource(context.services.inference, context.settings),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Tokenize a text or a conversation (vLLM, llama.cpp)",
                body=TokenizeRequest,
                answer=Tokenized,
                other_answers=(TokenList,),
                errors=_TOKENIZER_ERRORS,
            ),
        ),
    ),
    Route(
        path="/detokenize",
        aliases=("/v1/detokenize",),
        resource=lambda context: DetokenizeResource(context.services.inference, context.settings),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Get the text of token ids (vLLM, llama.cpp)",
                body=DetokenizeRequest,
                answer=Detokenized,
                errors=_TOKENIZER_ERRORS,
            ),
        ),
    ),
    Route(
        path="/apply-template",
        resource=lambda context: TemplateResource(context.services.inference, context.settings),
        protocol=LLAMA_CPP,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Render the prompt of a conversation (llama.cpp)",
                body=TemplateRequest,
                answer=RenderedPrompt,
                errors=_TOKENIZER_ERRORS,
            ),
        ),
    ),
    Route(
        path="/props",
        resource=lambda context: PropertiesResource(context.services.inference),
        protocol=LLAMA_CPP,
        access="caller",
        operations=(
            Operation(
                method="get",
                summary="Get the properties of a model (llama.cpp)",
                answer=ServerProperties,
                query=(Query(name="model", schema={"type": "string"}),),
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/tokenizer_info",
        resource=lambda context: TokenizerInfoResource(context.services.inference),
        protocol=OPENAI,
        access="caller",
        operations=(
            Operation(
                method="get",
                summary="Get the settings of a model's tokenizer (vLLM)",
                answer=TokenizerInfo,
                query=(Query(name="model", schema={"type": "string"}),),
                errors=(404,),
            ),
        ),
    ),
)
