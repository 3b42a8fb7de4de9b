from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.archive.mask import MASK, mask, mask_bytes

SECRETS = [
    ("password=hunter2", "hunter2"),
    ("Password : hunter2", "hunter2"),
    ("db_password='correct horse'", "correct horse"),
    ('{"password": "a\\"b", "n": 1}', 'a\\"b'),
    ('{\\"password\\": \\"tr0ub4dor\\"}', "tr0ub4dor"),
    ("PGPASSWORD=hunter2 psql -h db", "hunter2"),
    ("MYSQL_PWD=hunter-2", "hunter-2"),
    ("('password', 'hunter2')", "hunter2"),
    ("os.environ['API_KEY'] = 'abc1'", "abc1"),
    ("clientSecret: s3cr3t", "s3cr3t"),
    ("train.py --password hunter2 --lr 0.1", "hunter2"),
    ("login --auth-token=t0ps3cret", "t0ps3cret"),
    ("vault --token t0ps3cret", "t0ps3cret"),
    ("token=abc123def", "abc123def"),
    ("sort_key: password=hunter2", "hunter2"),
    ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    ("wandb login 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    ("export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWx", "hf_"),
    ("using hf_AbCdEfGhIjKlMnOpQrStUvWx now", "hf_"),
    ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_"),
    ("glpat-abcdefgh1234567890ij", "glpat-"),
    ("key sk-abcdefghijklmnopqrstuvwxyz012345", "sk-"),
    ("sk-proj-abcd_efgh-ijkl0123456789", "sk-"),
    ("nvapi-abcdefghijklmnopqrstuvwxyz", "nvapi-"),
    ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("git clone https://ada:pa@ss@git.example/x.git", "pa@ss"),
    ("redis://:hunter2@cache:6379/0", "hunter2"),
    ("https://0123456789abcdef0123456789abcdef@git.example/x", "0123456789abcdef"),
    ("GET https://s3.example/o?X-Amz-Signature=0a1b2c3d&X=1", "0a1b2c3d"),
    ("Authorization: Bearer abc.def-ghi", "abc.def"),
    ("authorization: Basic YWRhOmh1bnRlcg==", "YWRh"),
    ('Authorization: Digest username="ada", response="6629fae4"', "6629fae4"),
    ('-H "Authorization: Bearer 1234567890"', "1234567890"),
    ("sent bearer q1w2e3r4", "q1w2e3r4"),
    ("Cookie: sid=31d4d96e407aad42; theme=light", "31d4d96e"),
    ("SLURM_JWT=eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE2NX0.sig", "eyJ"),
    ("credential MUNGE:AwQDAAD7kTq3gQvT0a5l8x2nYw==: bad", "AwQDAAD7"),
    ("SITE_KEY=ab12cd34", "ab12cd34"),
]
HARMLESS = [
    "GPU-7d1f6c52-13ab-9e04-51aa-0c6d2b7f4e11",
    "NVRM: GPU at PCI:0000:db:00: GPU-51f0b2de-77c4-de9a-eb35-a39400f3f4aa",
    "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)",
    "node-01:4711:5021 [3] NCCL INFO comm 0x55d0c8a0 rank 3 nranks 32 commId 0x9a8b7c6d5e4f3a2b commHash 0x1234abcd key 0x77",
    "NCCL WARN NET/IB: Got completion from peer 10.0.0.2<41193> with status=12 opcode=0 len=0 vendor err 129",
    "HEAD is now at 45eb41c2f0aa1f0a9d3b5f7c6e8d9a0b1c2d3e4f",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "docker://registry.example:5000/nvidia/pytorch@sha256:9f86d081884c7d65",
    "num_tokens: 780199881 | per_token_loss: 1.6719 | tokens=5",
    "eos_token='<|endoftext|>' pad_token_id=0 bos_token: <s>",
    "token: 151643 out of range",
    "json: unexpected token: foo",
    "slurm: error: job credential: expired",
    "Permission denied (publickey,password).",
    "bearer authentication failed",
    "PWD=/home/ada OLDPWD=/scratch/ada",
    "KeyError: 'model_key'",
    "sort_key = name",
    "P_Key=0x7fff p_key: 0xffff q_key=0x11111111",
    "tests pass: 3/4",
    "keyboard interrupt, key=3",
    "mlx5_core 0000:a1:00.0: Port module event: module 0, Cable unplugged",
    "slurmstepd: error: *** STEP 4242.0 ON node-01 CANCELLED AT 2026-10-03T03:41:55 ***",
    "AuthAltTypes=auth/jwt AuthAltParameters=jwks=/etc/slurm/jwks.json",
]
PEM = "-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secret_is_masked_wherever_it_stands(text: str, secret: str) -> None:
    for whole in (text, f"[rank3]: {text}", f"{text}\nnext line", f"a b {text} c"):
        assert secret not in mask(whole)
        assert MASK in mask(whole)


@pytest.mark.parametrize("text", HARMLESS)
def test_evidence_is_not_eaten(text: str) -> None:
    assert mask(text) == text
    raw = text.encode()
    assert mask_bytes(raw) is raw


def test_text_around_a_secret_stays() -> None:
    assert mask("rank 3 password=hunter2 on node-02") == "rank 3 password=[masked] on node-02"
    assert mask('{"password": "x", "node": "n1"}') == '{"password": "[masked]", "node": "n1"}'
    assert mask("https://ada:x@git.example/y") == "https://[masked]@git.example/y"


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_pem_is_masked_with_the_line_prefixes_inside(prefix: str) -> None:
    text = "\n".join(prefix + line for line in PEM.format(body="MIIEvQIBADAN\nBgkqhkiG9w0B").splitlines())
    assert mask(f"before\n{text}\nafter") == f"before\n{prefix}[masked]\nafter"


def test_pem_without_its_end_takes_the_key_and_not_the_log() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    assert mask(f"-----BEGIN PRIVATE KEY-----\n{body}\nNVRM: Xid 79") == "[masked]\nNVRM: Xid 79"
    assert body not in mask(f"-----BEGIN PRIVATE KEY-----\\n{body}")


@given(st.text(string.ascii_letters + string.digits + "!#$%^&*()-_=+[]{}|;:,.<>?~", min_size=8, max_size=60))
def test_password_never_leaks(secret: str) -> None:
    if secret in MASK:
        return
    for form in ("password={}", "password: {}", "--password {}", 'password="{}"', "X_SECRET='{}'"):
        assert secret not in mask(form.format(secret) + " tail")


@given(st.text(string.ascii_letters + string.digits, min_size=20, max_size=80))
def test_masked_says_nothing_of_the_length(secret: str) -> None:
    assert mask(f"hf_{secret}") == mask(f"api_key={secret}x")[8:] == MASK


PIECES = st.sampled_from(
    [text for text, _ in SECRETS] + HARMLESS + [PEM.format(body="MIIEvQIBADAN"), "://", "@", "'", '"', "\\", "=", ":", " ", "\n", "token", "[masked]"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join))
def test_masking_again_changes_nothing(text: str) -> None:
    once = mask(text)
    assert mask(once) == once


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(raw: bytes) -> None:
    mask_bytes(b"password=" + raw)
    assert mask_bytes(raw) == raw or MASK.encode() in mask_bytes(raw)


def test_half_a_surrogate_pair_passes() -> None:
    assert mask("\ud800 password=hunter2") == "\ud800 password=[masked]"


@pytest.mark.parametrize(
    "piece", ["password", "password=", "a_key:", "://a:", "-----BEGIN A-----\n", 'token="', "a_", "--token ", "'\"", "eyJa.b"]
)
def test_hostile_megabyte_is_linear(piece: str) -> None:
    small, large = (piece * (size // len(piece)) for size in (100_000, 1_000_000))
    times = []
    for text in (small, large):
        began = time.perf_counter()
        mask(text)
        times.append(time.perf_counter() - began)
    assert times[1] < 40 * max(times[0], 0.02)


def test_no_pattern_of_the_slow_kind() -> None:
    """Python's own `re` is used only on short words that RE2 has found."""
    import attribution.archive.mask as module

    slow = [name for name, value in vars(module).items() if isinstance(value, re.Pattern)]
    assert sorted(slow) == ["_HARD_RE", "_HARMLESS_RE", "_TOKENIZER_RE"]
