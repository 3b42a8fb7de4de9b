"""Secrets are masked before anything is stored. All patterns are RE2's: linear in the text, whatever the text is.

What replaces a secret says nothing of its length. Masking again changes nothing. GPU UUIDs, PCI addresses, commit and
NCCL hashes, image digests and the token counts of training logs stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import re2

MASK = "[masked]"
_MASKED = MASK.encode()

Replace = Callable[["re.Match[bytes]"], bytes]
Rule = tuple[tuple[bytes, ...], Callable[[bytes], bytes]]


def _pattern(text: str) -> re.Pattern[bytes]:
    """Bytes, one by one: text that is no valid UTF-8 is matched as well."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 32 << 20
    compiled: re.Pattern[bytes] = re2.compile(text.encode(), options)
    return compiled


# A word whose value is secret whatever it looks like.
_HARD = (
    r"password|passwd|passphrase|passcode|secret|(?:api|access|secret|private|encryption|signing|account|storage|master|session"
    r"|subscription|license|service)[_.-]?key|apikey|jwt|security[_.-]?token|auth[_.-]?token|access[_.-]?token|refresh[_.-]?token"
    r"|id[_.-]?token|bearer[_.-]?token|session[_.-]?id|csrf[_.-]?token|private[_.-]?token|authkey|webhook[_.-]?url"
)
# A word that is also used for harmless things: a number, a path or a special token of a tokenizer stays.
_SOFT = r"[a-z0-9]*token|pass|pwd|credentials?|cookie"
_VALUE = (
    r"""\\"(?:[^"\\]|\\[^"])*(?:\\"|\z)"""  # quoted inside a quoted text
    r"""|"(?:[^"\\\r\n]|\\.)*"?"""
    r"""|'(?:[^'\\\r\n]|\\.)*'?"""
    r"""|(?:[^\s"']|["'][^\s,;:}\])"'])+"""
)
_NAME = rf"(?:[a-z0-9]+[_.-]+)*(?:[a-z0-9]*(?:{_HARD})|(?:{_SOFT})|[a-z0-9]+_key)"
_ASSIGNED_RE = _pattern(rf"""(?i)(\b|_|--?)({_NAME})((?:\\?["'])?\]?\s?(?:=>|:=|=|:)\s*|["']\s*,\s*)""")
_VALUE_RE = _pattern(_VALUE)
_PEEK = 256
_PASSES = 4
_FLAG = rf"""(?i)(--(?:[a-z0-9]+-)*(?:{_HARD}|token)\s+)({_VALUE})"""
_HARD_RE = re.compile(rf"(?:{_HARD})\Z", re.IGNORECASE)
_HARMLESS_RE = re.compile(
    r"""[\[({]*["']?(?:[-+0-9.,eE%/x]+|0x[0-9a-fA-F]+|/[^\s]*|<[^\s]*|\[masked\]|none|null|true|false|nan|inf|\w{1,3})["']?[\])},;.]*""",
    re.IGNORECASE,
)
_TOKENIZER_RE = re.compile(
    r"(?:^|[_.-])(?:eos|bos|pad|unk|sep|cls|mask|special|image|video|audio|num|per|max|min|new|next|last|first|stop|start|end|prompt"
    r"|tokens?[_.-]per|loss[_.-]per|current|total|input|output|generated|cached?)[_.-]?token\Z",
    re.IGNORECASE,
)


def _assigned(raw: bytes) -> bytes:
    """Names are found first and values looked at one by one: a harmless value may itself hold an assignment."""
    kept, done = [], 0
    for match in _ASSIGNED_RE.finditer(raw):
        if match.start() < done:
            continue
        peek = _VALUE_RE.match(raw[match.end() : match.end() + _PEEK])
        if peek is None or _is_harmless(match.group(2).decode("latin-1"), match.group(3), peek.group()):
            continue
        value = _VALUE_RE.match(raw, match.end()) or peek
        kept += [raw[done : match.end()], _quoted(value.group())]
        done = match.end() + len(value.group())
    return b"".join([*kept, raw[done:]]) if kept else raw


def _is_harmless(name: str, equals: bytes, value: bytes) -> bool:
    if _HARD_RE.search(name):
        return False
    if _TOKENIZER_RE.search(name):
        return True
    if name.lower().endswith("_key") and not (name.isupper() and b"=" in equals):
        return True  # `sort_key = name` is code; `WANDB_X_KEY=…` is the environment
    prose = not any(sign in equals for sign in (b"=", b'"', b"'"))
    if prose and not (name.lower().endswith("token") and len(value) >= 8):
        return True  # `unexpected token: foo`, `job credential: expired`, `tests pass: most`
    return _HARMLESS_RE.fullmatch(value.decode("latin-1")) is not None


def _quoted(value: bytes) -> bytes:
    for quote in (b'\\"', b'"', b"'"):
        if value.startswith(quote):
            return quote + _MASKED + quote
    return _MASKED


def _sub(pattern: str, replace: Replace) -> Callable[[bytes], bytes]:
    compiled = _pattern(pattern)
    return lambda raw: compiled.sub(replace, raw)


def _all(_match: re.Match[bytes]) -> bytes:
    return _MASKED


def _after(match: re.Match[bytes]) -> bytes:
    """What follows group 1 is the secret."""
    return match.group(1) + _MASKED


def _between(match: re.Match[bytes]) -> bytes:
    return match.group(1) + _MASKED + match.group(2)


_PEM = (
    r"-----BEGIN [A-Z0-9 ]{1,40}-----"
    r"(?:(?:[^\n]*\n){0,100}?[^\n]*?-----END [A-Z0-9 ]{1,40}-----|(?:(?:\s|\\[nr])+[A-Za-z0-9+/]{16,}={0,2})*)"
)
_KNOWN = (
    r"\b(?:(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|rt|dt|cbt|ptt|soat|oas|ft)-[A-Za-z0-9_.-]{16,}|sk-[A-Za-z0-9]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|sk-(?:proj|ant|svcacct|admin|or|lf)-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-AgE[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_.-]{20,}|dop_v1_[a-f0-9]{40,}"
    r"|dckr_pat_[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?|MUNGE:[A-Za-z0-9+/=]{20,}:?)"
)
_AUTHORIZATION = r"""(?i)(\bauthorization(?:\\?["'])?\s*[:=]\s*(?:\\?["'])?"""
_BASIC = _AUTHORIZATION + r"""(?:(?:basic|bearer|token|apikey|key)\s+)?)[^\s"',;\\]{4,}"""
_DIGEST = _AUTHORIZATION + r"""(?:digest|ntlm|negotiate|aws4-hmac-sha256)\s)[^\r\n]+"""
_BEARER = r"(?i)(\bbearer\s+)(?:[a-z0-9._~+/=-]*[0-9][a-z0-9._~+/=-]*|[a-z0-9._~+/=-]{20,})"
_URL_USER = r"""(://)[^\s/@:"'<>]*:[^\s/"'<>]*(@)"""
_URL_ALONE = r"(?i)(://)[a-z0-9_.~%-]{24,}(@)"
_QUERY = r"""(?i)([?&](?:[a-z0-9-]*signature|sig|[a-z-]*security-token|[a-z_-]*token|code|[a-z_]*key)=)[^&\s"'#]+"""
_KNOWN_NEEDLES = (
    b"akia", b"asia", b"agpa", b"aida", b"aroa", b"anpa", b"hf_", b"gh", b"gl", b"sk-", b"k_live", b"k_test", b"xox", b"nvapi-",
    b"npm_", b"pypi-", b"aiza", b"ya29", b"dop_v1", b"dckr_", b"eyj", b"munge:",
)  # fmt: skip
_NAME_NEEDLES = (b"pass", b"secret", b"key", b"jwt", b"token", b"pwd", b"credential", b"session", b"cookie", b"webhook")

# In order: what is a secret by its own look comes first, so that what follows sees it masked already.
_RULES: tuple[Rule, ...] = (
    ((b"-----begin ",), _sub(_PEM, _all)),
    ((b"://",), _sub(_URL_USER, _between)),
    ((b"://",), _sub(_URL_ALONE, _between)),
    (_KNOWN_NEEDLES, _sub(_KNOWN, _all)),
    ((b"authorization",), _sub(_DIGEST, _after)),
    ((b"authorization",), _sub(_BASIC, _after)),
    ((b"bearer",), _sub(_BEARER, _after)),
    ((b"cookie",), _sub(r"(?i)(\b(?:set-)?cookie:\s*)[^\s=;]+=[^\r\n]*", _after)),
    ((b"wandb",), _sub(r"(?i)(\bwandb\s+login\s+(?:--\S+\s+)*)[0-9a-f]{32,}", _after)),
    ((b"sig", b"key", b"code", b"token"), _sub(_QUERY, _after)),
    ((b"--",), _sub(_FLAG, lambda m: m.group(1) + _quoted(m.group(2)))),
    (_NAME_NEEDLES, _assigned),
)
# Most text holds no needle at all: one look says so.
_ANY_RE = _pattern("(?i)" + "|".join(sorted({re.escape(needle.decode()) for needles, _ in _RULES for needle in needles})))


def mask(text: str) -> str:
    """`text` with every secret in it replaced by `[masked]`; the same text where there is none."""
    raw = text.encode("utf-8", "surrogatepass")
    masked = mask_bytes(raw)
    return text if masked is raw else masked.decode("utf-8", "surrogatepass")


def mask_bytes(raw: bytes) -> bytes:
    """The same for bytes; the same object where there was nothing to mask."""
    for _ in range(_PASSES):
        # What one mask uncovers (a URL right behind a token, say) is for the next pass.
        changed = _one_pass(raw)
        if changed is raw:
            break
        raw = changed
    return raw


def _one_pass(raw: bytes) -> bytes:
    if _ANY_RE.search(raw) is None:
        return raw
    lowered = raw.lower()
    for needles, replace in _RULES:
        if any(needle in lowered for needle in needles):
            changed = replace(raw)
            if changed != raw:
                raw, lowered = changed, changed.lower()
    return raw


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever its text looks like (`{"password": "…"}`)."""
    return _HARD_RE.search(name) is not None
