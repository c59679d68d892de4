"""The plan that all ranks must agree on."""

from mlxctl import __version__
from mlxctl.engine.wire.rank_messages import CONTROL_VERSION, RankPlan
from mlxctl.ir import ModelSpec
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state.installed import version_of


def plan_of(spec: ModelSpec, num_ranks: int, split: str) -> RankPlan:
    """Return the plan of this machine for a model. Raises BrokenModel."""
    return RankPlan(
        control_version=CONTROL_VERSION,
        mlxctl=__version__,
        mlx=version_of("mlx") or "",
        mlx_lm=version_of("mlx-lm") or "",
        num_ranks=num_ranks,
        split=split,
        model=fingerprint(spec.path.resolve()),
    )
