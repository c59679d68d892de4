"""Routes of tokenizers and chat templates (vLLM, llama.cpp)."""

from mlxctl.protocols import OPENAI
from mlxctl.protocols.compat.llama_cpp.routes import LLAMA_CPP
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
