"""Is it my environment or my algorithm? A diagnosis of an environment of your own, and what would change it.

    python examples/diagnose_my_env.py

The same from the command line:

    sqirl diagnose examples/analyse_my_env.py:TwoDoors --horizon 12
    sqirl whatif examples/analyse_my_env.py:TwoDoors --horizon 12,24 --frame-skip 2
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sqirl

sys.path.insert(0, str(Path(__file__).parent))
from analyse_my_env import HORIZON, TwoDoors


def main() -> None:
    found = sqirl.diagnose(TwoDoors(), horizon=HORIZON, time_limit=20)
    print(found)
    print()
    assert found.mdp is not None  # its states could be listed
    print(sqirl.whatif(found.mdp, frame_skip=[2], exploration=[np.array([0.25, 0.75])]))


if __name__ == "__main__":
    main()
