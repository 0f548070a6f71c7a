"""The commands' settings of XLA's compiler: said once, for the versions that know them, and the user's stand."""

import subprocess
import sys

import pytest

from fedci.cli import compiler

QUICK = f"{compiler.FLAG}=false"


@pytest.mark.parametrize(("said", "known", "expected"), [
    (None, "0.10.2", QUICK), ("", "0.10.2", QUICK), ("--xla_dump_to=x", "0.10.2", f"--xla_dump_to=x {QUICK}"),
    (f"{compiler.FLAG}=true", "0.10.2", f"{compiler.FLAG}=true"), ("", "0.11.0", ""), (None, "1.0", None)])
def test_the_flag_is_said_once_and_only_where_it_is_known(monkeypatch, said, known, expected):
    monkeypatch.setattr(compiler, "version", lambda name: known)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    if said is not None:
        monkeypatch.setenv("XLA_FLAGS", said)
    for _ in range(2):
        compiler.compile_quickly()
        assert compiler.os.environ.get("XLA_FLAGS") == expected


def test_this_jax_knows_the_flag():
    """With an unknown one the process would end."""
    program = ("import os; os.environ.pop('XLA_FLAGS', None); from fedci.cli.compiler import compile_quickly; "
               "compile_quickly(); import jax; print(jax.jit(lambda x: x + 1.0)(1.0), os.environ.get('XLA_FLAGS', ''))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["2.0", QUICK]
