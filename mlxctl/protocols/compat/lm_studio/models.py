"""LM Studio's model lists, and bodies of loads and downloads."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.protocols.ranges import Name

DownloadStatus = Literal["downloading", "completed", "failed", "already_downloaded"]


class LMStudioModel(Struct, kw_only=True):
    """A served model, as LM Studio describes one."""

    id: str
    object: Literal["model"] = "model"
    type: Literal["llm", "vlm", "embeddings"]
    publisher: str = "mlxctl"
    arch: str
    compatibility_type: Literal["mlx"] = "mlx"
    quantization: str | None
    state: Literal["loaded", "not-loaded"]
    max_context_length: int
    capabilities: list[Literal["tool_use"]]


class LMStudioModels(Struct, kw_only=True):
    """All models, in LM Studio's format."""

    object: Literal["list"] = "list"
    data: list[LMStudioModel]


class LMStudioQuantization(Struct, kw_only=True):
    """How the weights are stored."""

    name: str
    bits_per_weight: float | None


class LMStudioInstanceConfig(Struct):
    """Options of a loaded model."""

    context_length: int


class LMStudioInstance(Struct):
    """A model in memory."""

    id: str
    config: LMStudioInstanceConfig


class LMStudioCapabilities(Struct, kw_only=True):
    """What a model can do besides text."""

    vision: bool
    trained_for_tool_use: bool


class LMStudioNativeModel(Struct, kw_only=True):
    """A served model, as `/api/v1/models` describes one; `key` is its name."""

    type: Literal["llm", "embedding"]
    publisher: str = "mlxctl"
    key: str
    display_name: str
    architecture: str | None
    quantization: LMStudioQuantization | None
    size_bytes: int
    params_string: str | None
    loaded_instances: list[LMStudioInstance]
    max_context_length: int
    format: Literal["mlx"] = "mlx"
    capabilities: LMStudioCapabilities | UnsetType = UNSET
    description: str | None = None


class LMStudioNativeModels(Struct):
    """All models, in the format of `/api/v1/models`."""

    models: list[LMStudioNativeModel]


class LMStudioLoadRequest(Struct, kw_only=True):
    """A model to load.

    `context_length` may not exceed the model's, which always applies. Options of other engines
    (`flash_attention` and others) are ignored.
    """

    model: Name
    context_length: Annotated[int, Meta(ge=1)] | None = None
    echo_load_config: bool | None = None


class LMStudioLoaded(Struct, kw_only=True):
    """A loaded model."""

    type: Literal["llm", "embedding"]
    instance_id: str
    load_time_seconds: float
    status: Literal["loaded"] = "loaded"
    load_config: LMStudioInstanceConfig | UnsetType = UNSET


class LMStudioUnload(Struct, kw_only=True):
    """A loaded model by its name, in the request and the answer."""

    instance_id: Name


class LMStudioDownloadRequest(Struct, kw_only=True):
    """A model to download, ORGANIZATION/NAME or its page on Hugging Face."""

    model: Name
    quantization: str | None = None


class LMStudioDownload(Struct, kw_only=True):
    """The state of a download; times are in ISO 8601."""

    status: DownloadStatus
    job_id: str | UnsetType = UNSET
    total_size_bytes: int | UnsetType = UNSET
    downloaded_bytes: int | UnsetType = UNSET
    bytes_per_second: float | UnsetType = UNSET
    estimated_completion: str | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    completed_at: str | UnsetType = UNSET
