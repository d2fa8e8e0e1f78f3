"""Damage to small files of other tools, and what reading the result comes to."""

import random
from pathlib import Path

from reader_samples import COMPANIONS, SAMPLES

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.registry import import_files

NASTY = (
    b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b'"x"', b"[]", b"{}", b"1" * 30, b"99999999999", b"0.5", b"1e-300",
    b"\xff\xfe", b"\x00", b"\n", b"\t", b"\xe2\x80\xa8", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"*a", b"&a",
    b"!!x",
)  # fmt: skip


def damaged(name: str, generator: random.Random) -> tuple[str, bytes]:
    """A sample of the format after one to four cuts, repetitions, exchanges and insertions, with the file's name."""
    file = generator.choice(sorted(SAMPLES[name]))
    content = SAMPLES[name][file]
    return file, damaged_bytes(content.encode() if isinstance(content, str) else content, generator)


def damaged_bytes(data: bytes, generator: random.Random) -> bytes:
    """The bytes after one to four cuts, repetitions, exchanges and insertions."""
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(data) + 1)
        end = min(len(data), start + generator.choice((0, 1, 1, 2, 4, 8, 32)))
        insert = generator.choice(
            (b"", data[start:end] * 2, generator.choice(NASTY), bytes([generator.randrange(256)]))
        )
        data = data[:start] + insert + data[end:]
    return data


def attempt(name: str, path: Path, content: bytes) -> str:
    """Import the file, beside those that its format needs; the error if it is refused, else nothing."""
    path.write_bytes(content)
    others = []
    for other, text in COMPANIONS.get(name, {}).items():
        others.append(path.with_name(other))
        if not others[-1].exists():
            others[-1].write_text(text, encoding="utf-8")
    try:
        import_files([*others, f"{name}:{path}"])
    except InputError as error:
        return str(error)
    return ""
