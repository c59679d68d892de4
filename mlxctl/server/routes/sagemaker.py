"""SageMaker's route, as in vLLM: every kind of request at one path."""

from mlxctl.protocols import OPENAI
from mlxctl.protocols.invocations import INVOCATION_PATHS, Invocation
from mlxctl.protocols.openai.chat_answers import ChatCompletion
from mlxctl.protocols.openai.completions_schema import TextChunk, TextCompletion
from mlxctl.protocols.openai.embeddings_schema import EmbeddingList
from mlxctl.protocols.rerank import RerankAnswer
from mlxctl.protocols.score import ScoreAnswer
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route, RouteContext
from mlxctl.server.resources.compat.invocations import InvocationsResource
from mlxctl.server.routes import openai, rerank


def _invocations(context: RouteContext) -> InvocationsResource:
    wanted = frozenset(INVOCATION_PATHS.values())
    targets = {
        route.path: (route, route.resource(context))
        for route in (*openai.ROUTES, *rerank.ROUTES)
        if route.path in wanted
    }
    return InvocationsResource(context.services.inference, context.settings, targets)


ROUTES = (
    Route(
        path="/invocations",
        resource=_invocations,
        protocol=OPENAI,
        access="caller",
        operations=(
            Operation(
                method="post",
                summary="Answer a chat completion, completion, embedding, reranking or score (SageMaker)",
                body=Invocation,
                answer=ChatCompletion,
                other_answers=(TextCompletion, EmbeddingList, RerankAnswer, ScoreAnswer),
                events=(*openai.CHAT_EVENTS, TextChunk),
                errors=(*GENERATION_ERRORS, 403),
            ),
        ),
    ),
)
