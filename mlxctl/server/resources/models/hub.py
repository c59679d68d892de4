"""/library/hub: models of the hub that can be downloaded."""

import asyncio

from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.ir.errors import DownloadFailed, FeatureDisabled, InvalidRequest
from mlxctl.library.catalog import Catalog
from mlxctl.server.http.answer import answer
from mlxctl.server.policy.caller import allowed_models

_MAX_TEXT_LENGTH = 100
_MAX_MODELS = 20


class HubModelView(Struct):
    """A repository of the hub.

    `downloads` are those of the last 30 days, `task` is the hub's word, such as text-to-speech.
    """

    repository: str
    downloads: int
    updated_at: str | None
    task: str | None


class HubModelList(Struct):
    """What a search of the hub found, the most downloaded first."""

    models: list[HubModelView]


class HubSearchResource:
    """A search of the hub for models in the MLX format."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # One search at a time: each may wait for the hub in a thread.
        self._lock = asyncio.Lock()

    async def on_get(self, request: Request, response: Response) -> None:
        """Search for the words of `search`.

        Raises InvalidRequest, and FeatureDisabled if the settings do not allow downloads.
        """
        text = (request.get_param("search") or "").strip()
        if not 1 <= len(text) <= _MAX_TEXT_LENGTH:
            raise InvalidRequest(f"search must have 1 to {_MAX_TEXT_LENGTH} characters", param="search")
        if not self._catalog.allows_downloads:
            raise FeatureDisabled("GET /library/hub", "library.allow_downloads")
        allowed = allowed_models(request)
        # PERF: the HTTP client is imported with the first search.
        from mlxctl.library.hub_search import search_hub

        try:
            async with self._lock:
                found = await asyncio.to_thread(search_hub, text, limit=_MAX_MODELS)
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="search") from None
        models = [HubModelView(*model) for model in found if model.repository in allowed]
        answer(response, HubModelList(models=models))
