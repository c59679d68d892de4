"""Searches the Hugging Face hub for models in the MLX format."""

from typing import NamedTuple

import httpx
import msgspec

from mlxctl.ir.errors import DownloadFailed

_TIMEOUT_SECONDS = 15.0


class HubModel(NamedTuple):
    """A repository of the hub.

    `downloads` are those of the last 30 days, `task` is the hub's word, such as text-to-speech.
    """

    repository: str
    downloads: int
    updated_at: str | None
    task: str | None


def search_hub(text: str, *, limit: int) -> list[HubModel]:
    """Return repositories tagged `mlx` with these words in the name.

    The most downloaded first.
    """
    # The library's own search retries for half a minute without a network.
    from huggingface_hub import constants, get_token

    token = get_token()
    query: dict[str, str | int] = {"filter": "mlx", "search": text, "sort": "downloads", "limit": limit}
    try:
        answer = httpx.get(
            f"{constants.ENDPOINT}/api/models",
            params=query,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
        )
        found = msgspec.json.decode(answer.raise_for_status().content, type=list[_Found])
    except (httpx.HTTPError, msgspec.MsgspecError) as error:
        message = (
            f"the hub cannot be searched: {constants.ENDPOINT}: {error}; `mlxctl models ls` lists those of "
            "this machine"
        )
        raise DownloadFailed(text, message) from None
    return [
        HubModel(model.id, model.downloads, (model.lastModified or "")[:10] or None, model.pipeline_tag)
        for model in found
    ]


class _Found(msgspec.Struct):
    id: str
    downloads: int = 0
    pipeline_tag: str | None = None
    lastModified: str | None = None  # noqa: N815 -- the hub's name
