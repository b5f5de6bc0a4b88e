"""Lists the fabrics of ``fabric/presets/*.toml``.

To add one, add a file there. Fast to import, for the command line.
"""

import tomllib
from pathlib import Path

#: Folder of the preset files.
PRESETS = Path(__file__).parents[1] / "presets"


def presets() -> dict[str, str]:
    """Return the names of the fabrics that come with the package, each with its description.

    The names of `electrical.families.FAMILIES` also take numbers: ``"ring:16"``, ``"torus:4x4"``.

    Examples
    --------
    >>> from wavefabric.fabric import presets
    >>> presets()["dgx-a100"]
    'NVIDIA DGX A100: 8 GPUs on NVSwitches, 12 NVLinks each'
    """
    texts = {path.stem: path.read_text("utf-8") for path in PRESETS.glob("*.toml")}
    return {name: tomllib.loads(text)["description"] for name, text in sorted(texts.items())}
