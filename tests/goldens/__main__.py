"""Runs the commands of ``commands.txt`` with the code of two commits and names the outputs that differ.

    python tests/goldens COMMIT [GROUP …]     a commit beside the working tree
    python tests/goldens                      the last commit beside it

A move or a renaming must leave every output as it was, to the bit. Both run on this machine, so no hashes of
another processor are kept.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from outputs import Output, compared, environment, groups, run_group

ROOT = Path(__file__).parents[2]


def outputs_of(source: Path, folder: Path, names: list[str]) -> dict[str, Output]:
    """Run the groups with the code under ``source``, in folders under ``folder``; what they put out."""
    subprocess.run(  # compiles kernels, if need be, once; the former name exists in older commits too
        [sys.executable, "-c", "from wavefabric.kernels.library import library; library()"],
        env=environment(source), check=True,
    )  # fmt: skip
    result: dict[str, Output] = {}
    for name in names:
        print(f"{source.name}: {name}", flush=True)
        result |= run_group(name, source, folder / name)
    return result


def main(commit: str = "HEAD", *names: str) -> int:
    """Compare a commit with the working tree; return how many outputs differ, at most 1."""
    wanted = list(names) or list(groups())
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", before, commit], cwd=ROOT, check=True
        )
        try:
            with ThreadPoolExecutor(2) as pool:
                trees = [(before, Path(folder) / "one"), (ROOT, Path(folder) / "two")]
                one, two = pool.map(lambda tree: outputs_of(*tree, wanted), trees)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    differences = compared(one, two)
    print("\n".join(differences) or f"all {len(one)} outputs are the same")
    return min(1, len(differences))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
