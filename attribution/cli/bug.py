"""What a person pastes into a bug report: where it broke, and no more of anybody's logs than the error's own words."""

from __future__ import annotations

import platform
import shlex
import traceback

from attribution import __version__

_MOST = 300


def report(error: BaseException, arguments: list[str]) -> str:
    """The report, ended by a newline. Of the error's message only the start is shown, with secrets masked."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"  {frame.filename}:{frame.lineno} in {frame.name}\n    {frame.line}" for frame in frames]
    return "\n".join(
        [
            "sattrib: this is a bug. Please report it with the lines below; look them over first.",
            "---",
            f"sattrib {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}",
            f"command: {_clean(shlex.join(['sattrib', *arguments]))}",
            *lines,
            f"{type(error).__name__}: {_clean(str(error))}",
            "---",
            "",
        ]
    )


def _clean(text: str) -> str:
    from attribution.report.escape import clip

    try:
        from attribution.archive.mask import mask
    except ImportError:
        return clip(text, _MOST)
    return clip(mask(text[: _MOST * 4]), _MOST)
