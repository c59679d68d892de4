"""SGLang's own routes."""

from mlxctl.protocols import OPENAI, PROTOCOLS
from mlxctl.protocols.openai.errors import OpenAIError
from mlxctl.protocols.sglang import SGLangAnswer, SGLangFormatter, SGLangRequest
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Query, Route
from mlxctl.server.resources.compat.sglang import SGLangModelInfo, SGLangModelInfoResource
from mlxctl.server.resources.generation.generation import GenerationResource

ROUTES = (
    Route(
        path="/generate",
        resource=lambda context: GenerationResource(
            context.services.inference, SGLangFormatter, context.open_requests, context.settings
        ),
        protocol=PROTOCOLS["sglang"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Continue prompts (SGLang)",
                body=SGLangRequest,
                answer=SGLangAnswer,
                other_answers=(list[SGLangAnswer],),
                events=(SGLangAnswer, OpenAIError),
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/model_info",
        aliases=("/get_model_info",),
        resource=lambda context: SGLangModelInfoResource(context.services.inference),
        protocol=OPENAI,
        access="models:read",
        operations=(
            Operation(
                method="get",
                summary="Describe a model (SGLang)",
                query=(Query(name="model", schema={"type": "string"}),),
                answer=SGLangModelInfo,
                errors=(404,),
            ),
        ),
    ),
)
