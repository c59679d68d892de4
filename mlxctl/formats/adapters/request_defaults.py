"""Server-wide options that are applied to every request. Pure values."""

from dataclasses import dataclass, fields, replace

from mlxctl.ir import GenerationRequest, SamplingOptions, ToneCurveOptions

NO_TONE_CURVE = ToneCurveOptions()
NO_SAMPLING = SamplingOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """Options for all requests.

    With `strips_agent_headers`, prompts go without lines that agents change for each call. `tone_curve`,
    `sampling`, `thinking` and `max_tokens` hold for requests that set none; None leaves it to the model. With
    `uses_fallback_sampling`, models that set no sampling values get FALLBACK_SAMPLING. Larger images than
    `max_image_pixels` are scaled down, and clips have at most `max_video_frames`.
    """

    strips_agent_headers: bool = False
    tone_curve: ToneCurveOptions = NO_TONE_CURVE
    sampling: SamplingOptions = NO_SAMPLING
    thinking: bool | None = None
    max_tokens: int | None = None
    uses_fallback_sampling: bool = True
    max_image_pixels: int | None = None
    max_video_frames: int = 64

    def sampling_of(self, request: SamplingOptions) -> SamplingOptions:
        """Return the request's options, unset ones with the default."""
        unset = {
            field.name: default
            for field in fields(SamplingOptions)
            if getattr(request, field.name) is None
            and (default := getattr(self.sampling, field.name)) is not None
        }
        return replace(request, **unset) if unset else request

    def max_tokens_of(self, request: GenerationRequest) -> int | None:
        """Return the request's `max_tokens`, or the server's, or its protocol's default."""
        candidates = (request.max_tokens, self.max_tokens, request.default_max_tokens)
        return next((limit for limit in candidates if limit is not None), None)
