"""What a wrong call is told: for the tests of bad inputs."""

from __future__ import annotations


def wrong(result: tuple[int, str, str], named: str, code: int = 2) -> None:
    """The command ended with the code, nothing on stdout, and one line on stderr that names the value."""
    got, out, err = result
    assert got == code, err
    assert err.startswith("sqirl: ") and err.endswith("\n") and err.count("\n") == 1, err
    assert named in err and "Traceback" not in err and len(err) < 2100, err
    assert not out
