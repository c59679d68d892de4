"""Routes of llama.cpp, and those of its tokenizer that vLLM has too."""

from functools import partial
from typing import Literal

from mlxctl.protocols import OPENAI, PROTOCOLS
from mlxctl.protocols.llama_cpp.errors import LlamaError
from mlxctl.protocols.llama_cpp.formatter import LlamaFormatter
from mlxctl.protocols.llama_cpp.schema import LlamaCompletion, LlamaCompletionRequest, LlamaInfillRequest
from mlxctl.protocols.registry import LLAMA_CPP
from mlxctl.protocols.tokenization import (
    Detokenized,
    DetokenizeRequest,
    RenderedPrompt,
    TemplateRequest,
    Tokenized,
    TokenizeRequest,
    TokenList,
)
from mlxctl.server.llama_cpp import LlamaResource
from mlxctl.server.route import GENERATION_ERRORS, Operation, Query, Route
from mlxctl.server.tokenization import (
    DetokenizeResource,
    PropertiesResource,
    ServerProperties,
    TemplateResource,
    TokenizeResource,
    TokenizerInfo,
    TokenizerInfoResource,
)

_TOKENIZER_ERRORS = (404, 429, 500, 503, 504)


def _generation(name: Literal["completion", "infill"], summary: str, body: type, *aliases: str) -> Route:
    protocol = PROTOCOLS[f"llama_{name}"]
    operation = Operation(
        method="post",
        summary=summary,
        body=body,
        answer=LlamaCompletion,
        other_answers=(list[LlamaCompletion],),
        events=(LlamaCompletion, LlamaError),
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=f"/{name}",
        aliases=aliases,
        resource=lambda context: LlamaResource(
            context.services.inference,
            partial(LlamaFormatter, route=name),
            context.open_requests,
            context.settings,
        ),
        protocol=protocol,
        access="generate",
        operations=(operation,),
    )


LLAMA_CPP_ROUTES = (
    _generation("completion", "Continue a prompt (llama.cpp)", LlamaCompletionRequest),
    _generation("infill", "Fill in the text between a prefix and a suffix (llama.cpp)", LlamaInfillRequest),
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
