"""Films of episodes: a GIF, or an MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqirl.errors import SqirlError, WorkFailed
from sqirl.play.watch import Picture, Stage, WatchedEpisode
from sqirl.runtime.files import check_format, write_atomically

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = (".gif", ".mp4")
#: Pictures are enlarged to about this height; their sides have at most so many pixels.
HEIGHT, LARGEST = 240, 480
#: Pixels of the line of text below a picture, and the least width of a film, so that the text fits.
CAPTION, WIDTH = 18, 300
#: Pictures in a second, and how many of them the end of an episode is shown for.
SPEED, PAUSE = 5, 5
#: Pictures of a film, at most; later ones are left out.
MOST_PICTURES = 3000


#: Why there is no film of some environments.
NO_PICTURES = (
    "this environment draws no pictures (it has no render_mode 'rgb_array', and its observations are no pictures), so there is "
    "no film; without -o the episodes are printed"
)


def check_pictures(stage: Stage, seed: int) -> None:
    """Raise `SqirlError` if the environment draws no pictures: called before it is played."""
    if stage.reset(seed).picture is None:
        raise SqirlError(NO_PICTURES)


def check_film_path(path: Path) -> None:
    """Raise `SqirlError` if no film can be written there: called before the work, not after it."""
    check_format(path, FORMATS, "films")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise SqirlError(f"'{path}' needs ffmpeg, which is not installed; write a .gif instead")


def save_film(episodes: Sequence[WatchedEpisode], names: Sequence[str] | None, path: Path) -> int:
    """Write the film; returns its number of pictures."""
    check_film_path(path)
    images = list(film_of(episodes, names))[:MOST_PICTURES]
    if not images:
        raise SqirlError(NO_PICTURES)
    path.parent.mkdir(parents=True, exist_ok=True)
    write = _write_gif if path.suffix == ".gif" else _write_mp4
    write(images, path)
    return len(images)


def film_of(episodes: Sequence[WatchedEpisode], names: Sequence[str] | None) -> Iterator[Image]:
    """The pictures of all episodes, each with a line that says what is done next and what was earned so far."""

    def named(action: int) -> str:
        return names[action] if names is not None and action < len(names) else str(action)

    for number, episode in enumerate(episodes, start=1):
        earned = 0.0
        for t, step in enumerate(episode.steps):
            done = named(step.action)
            if step.executed != step.action:
                done += f", but {named(step.executed)} was repeated"
            if step.picture is not None:
                yield _captioned(step.picture, f"episode {number}  step {t + 1}: {done}  return {earned:.4g}")
            earned += step.reward
        if episode.last_picture is not None:
            end = _captioned(
                episode.last_picture, f"episode {number}  over after {len(episode.steps)}  return {earned:.4g}"
            )
            yield from [end] * PAUSE


def _captioned(picture: Picture, text: str) -> Image:
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    enlarged = min(-(-HEIGHT // image.height), LARGEST // image.width)
    factor = enlarged if enlarged > 1 else min(1.0, LARGEST / max(image.size))
    width, height = max(1, round(image.width * factor)), round(image.height * factor)
    image = image.resize((width, height), Image.Resampling.NEAREST if factor >= 1 else Image.Resampling.BILINEAR)
    whole = Image.new("RGB", (_even(max(width, WIDTH)), _even(height + CAPTION)), "white")
    whole.paste(image, ((whole.width - width) // 2, 0))
    ImageDraw.Draw(whole).text((4, height + 3), text, fill="black")
    return whole


def _even(pixels: int) -> int:
    """MP4 needs even sides."""
    return pixels + pixels % 2


def _write_gif(images: list[Image], path: Path) -> None:
    buffer = io.BytesIO()
    images[0].save(
        buffer, format="GIF", save_all=True, append_images=images[1:], duration=1000 // SPEED, loop=0, disposal=1
    )
    write_atomically(path, buffer.getvalue())


def _write_mp4(images: list[Image], path: Path) -> None:
    size = f"{images[0].width}x{images[0].height}"
    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(SPEED),
               "-i", "-", "-pix_fmt", "yuv420p", str(path)]  # fmt: skip
    frames = b"".join(image.resize(images[0].size).tobytes() for image in images)
    ended = subprocess.run(command, input=frames, capture_output=True, check=False)
    if ended.returncode:
        raise WorkFailed(f"ffmpeg could not write '{path}': {_last_line(ended.stderr)}")


def _last_line(output: bytes) -> str:
    return next(reversed(output.decode(errors="replace").splitlines()), "no message")
