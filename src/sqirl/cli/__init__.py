"""The commands. $SQIRL_PLUGINS names modules to import first, separated by commas: they register algorithms of their own."""

from __future__ import annotations

import os
import sys


def load_plugins() -> None:
    """Import the modules of $SQIRL_PLUGINS. This happens before the commands are made, which have an option for each option."""
    for name in filter(None, os.environ.get("SQIRL_PLUGINS", "").split(",")):
        from sqirl.envs.named import imported
        from sqirl.errors import SqirlError

        try:
            imported(name.strip(), "$SQIRL_PLUGINS")
        except SqirlError as error:
            print(f"sqirl: {error}", file=sys.stderr)
            sys.exit(error.exit_code)


load_plugins()
