"""Time and peak memory of an ensemble of the oscillator: exact transition against diffrax.

    python benchmarks/ensembles.py [--chains 10000] [--steps 1000] [ROUTE ...]

Each route runs in a process of its own, so that its peak memory is its own: a first call, which compiles, and a second.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

ROUTES = {
    "exact": {},
    "align": {"solver": "align"},
    "shark": {"solver": "shark"},
    "quicsort": {"solver": "quicsort"},
    "align-tree": {"solver": "align", "brownian": "tree"},
}


def measure(route: str, chains: int, steps: int) -> str:
    """One row of the table, by the route's own process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from sde_grpo.oscillator import UpdateRule
    from sde_grpo.sde import LinearForce, inertial, sample_exact, sample_paths

    force = LinearForce(curvature=0.5, gradient_noise=0.3, group_size=8, fixed_point=0.7)
    motion = inertial(UpdateRule(0.02, 0.9), 0.5)

    def run(seed: int) -> float:
        begin = time.perf_counter()
        key = jax.random.key(seed)
        if route == "exact":
            paths = sample_exact(force, motion, key=key, start=-0.4, steps=steps, chains=chains)
        else:
            paths = sample_paths(force, motion, key=key, start=-0.4, steps=steps, chains=chains, **ROUTES[route])
        jax.block_until_ready(paths)
        return time.perf_counter() - begin

    first, second = run(0), run(1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"| {route} | {first:.2f} | {second:.2f} | {memory:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], help="default: all but align-tree")
    parser.add_argument("--chains", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(measure(given.routes[0], given.chains, given.steps))
        return
    print("| route | first call, s | second call, s | peak memory, GiB |\n|---|---|---|---|", flush=True)
    for route in given.routes or list(ROUTES)[:-1]:
        size = ["--chains", str(given.chains), "--steps", str(given.steps)]
        subprocess.run([sys.executable, __file__, route, *size, "--here"], check=True)


if __name__ == "__main__":
    main()
