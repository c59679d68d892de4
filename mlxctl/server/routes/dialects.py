"""Routes for text, embeddings and reranking, from the tables of dialects."""

from mlxctl.protocols import DIALECTS
from mlxctl.protocols.dialect import GenerationRoute
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route
from mlxctl.server.resources.generation.generation import GenerationResource
from mlxctl.server.resources.text.embeddings import embeddings_route


def _generation(route: GenerationRoute) -> Route:
    operation = Operation(
        method="post",
        summary=route.summary,
        body=route.body,
        answer=route.answer,
        other_answers=route.other_answers,
        events=route.events,
        stream_media_type=route.protocol.stream_media_type,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=route.path,
        aliases=route.aliases,
        resource=lambda context: GenerationResource(context, route.protocol),
        protocol=route.protocol,
        access="generate",
        operations=(operation,),
    )


ROUTES = tuple(
    route
    for dialect in DIALECTS.values()
    for route in (*map(_generation, dialect.generation), *map(embeddings_route, dialect.texts))
)
