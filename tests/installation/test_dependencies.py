"""Imports of mlxctl are required packages, or listed here with their check."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mlxctl.state.installed import EXTRAS

from .environment import ROOT, project, requirements

# Files that import a package of an extra, with the check that names the extra before.
OPTIONAL = {
    "mlxctl/formats/adapters/media/audio_decoders.py": {"miniaudio", "soundfile"},  # transcription_recipe.py
    "mlxctl/formats/adapters/media/image_files.py": {
        "PIL",  # models/vision_recipe.py
        "pillow_heif",  # missing_for
    },
    "mlxctl/formats/adapters/media/clips.py": {"PIL"},  # models/vision_recipe.py
    **{
        f"mlxctl/formats/vision/{name}.py": {"PIL"}  # models/vision_recipe.py
        for name in ("deepseekocr", "glm5_next", "step3p7")
    },
    "mlxctl/formats/adapters/media/frame_reader.py": {
        "PIL",  # models/vision_recipe.py
        "cv2",  # mlx-vlm requires it
    },
    "mlxctl/formats/adapters/media/pdf_files.py": {"pypdfium2"},  # missing_for
    **{
        f"mlxctl/engine/audio/{name}.py": {"mlx_audio"}  # library/transcription_recipe.py
        for name in (
            "families/canary",
            "families/parakeet",
            "families/sensevoice",
            "families/sortformer",
            "families/voxtral_realtime",
        )
    },
    **{
        f"mlxctl/engine/audio/families/{name}.py": {"mlx_audio", "transformers"}  # mlx-audio requires it
        for name in ("qwen3_asr", "qwen3_forced_aligner", "voxtral")
    },
    "mlxctl/engine/audio/transcriber.py": {"mlx_audio"},  # models/transcription_recipe.py
    "mlxctl/engine/audio/workload.py": {"mlx_audio"},  # models/transcription_recipe.py
    "mlxctl/engine/loading/audio_modules.py": {"mlx_audio", "transformers"},  # library/speech_recipe.py
    "mlxctl/engine/speech/streaming_state.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/kokoro.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/qwen3_batch.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/pocket_tts.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/qwen3_tts.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/soprano.py": {"mlx_audio"},  # library/speech_recipe.py
    "mlxctl/engine/speech/voxtral_tts.py": {"mistral_common", "mlx_audio"},  # library/speech_recipe.py
    "mlxctl/formats/adapters/media/speech_files.py": {"soundfile"},  # file_of
    "mlxctl/engine/embedding/weights.py": {"mlx_embeddings", "mlx_vlm"},  # models/encoders.py: find_encoder
    "mlxctl/engine/loading/vlm_text_model.py": {"mlx_vlm"},  # library/runtimes.py
    "mlxctl/engine/generation/loading.py": {"PIL", "mlx_vlm"},  # models/vision_recipe.py
    "mlxctl/server/policy/jwks.py": {"joserfc"},  # missing_for
    "mlxctl/server/policy/oidc.py": {"joserfc"},  # missing_for
    "mlxctl/state/installed.py": {"opentelemetry"},  # names of modules only
    "mlxctl/server/http/tls_key.py": {"cryptography"},  # missing_for
    "mlxctl/server/observe/tracing.py": {"opentelemetry"},  # missing_for
    "mlxctl/state/stores/policy.py": {"cryptography"},  # missing_for
    "mlxctl/chat/tools/mcp_server.py": {"mcp", "mcp_types"},  # missing_for
    "mlxctl/chat/tools/mcp_transport.py": {"anyio", "mcp", "mcp_types"},  # imported by mcp_server
    "mlxctl/probe/speech_samples.py": {"espeakng_loader"},  # find_synthesizer
}
# Files that query installed packages, where absence is no error.
LOOK_UPS = {
    "mlxctl/state/installed.py",
    "mlxctl/cli/doctor/packages.py",
    "mlxctl/cli/doctor/install_commands.py",
    "mlxctl/server/routes/__init__.py",
    "mlxctl/formats/discovery.py",
}
LOOK_UP_MODULES = ("importlib.metadata", "importlib.util", "importlib.resources", "pkgutil", "pkg_resources")


@cache
def installed_modules() -> dict[str, set[str]]:
    """Return every installed module with the names of its packages."""
    return {
        module: {canonicalize_name(name) for name in names}
        for module, names in packages_distributions().items()
    }


def plain_modules() -> set[str]:
    """Return the modules of required packages, without their own dependencies."""
    plain = {canonicalize_name(requirement.name) for requirement in requirements()}
    return {module for module, names in installed_modules().items() if names & plain}


def imported(tree: ast.AST) -> Iterator[str]:
    """Return every module that a file imports, or names in a string."""
    foreign = installed_modules().keys() - {"mlxctl"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.match(r"\w+\.\w", node.value)
        ):
            yield from {node.value} if node.value.partition(".")[0] in foreign else ()


def test_only_required_packages_are_imported_unconditionally() -> None:
    usual = {"mlxctl", *sys.stdlib_module_names, *plain_modules()}
    wrong = []
    for file in sorted((ROOT / "mlxctl").rglob("*.py")):
        name = str(file.relative_to(ROOT))
        modules = set(imported(ast.parse(file.read_text())))
        strange = {module.partition(".")[0] for module in modules} - usual - OPTIONAL.get(name, set())
        looked_up = (
            {module for module in modules if module.startswith(LOOK_UP_MODULES)}
            if name not in LOOK_UPS
            else set()
        )
        wrong += [f"{name}: {module}" for module in sorted(strange | looked_up)]
    assert wrong == [], (
        "declare the package in pyproject.toml; or look it up with mlxctl.state.installed, and name the file "
        "in OPTIONAL"
    )


def test_listed_optional_imports_still_exist() -> None:
    for name, modules in OPTIONAL.items():
        found = {module.partition(".")[0] for module in imported(ast.parse((ROOT / name).read_text()))}
        assert modules <= found, name


def test_each_extra_declares_its_packages() -> None:
    for extra, packages in EXTRAS.items():
        declared = {
            canonicalize_name(Requirement(text).name) for text in project()["optional-dependencies"][extra]
        }
        assert {canonicalize_name(package) for package in packages.values()} <= declared
