"""The record of all diagnostics: back from its file without JAX, damaged, sealed."""

import subprocess
import sys

import pytest

from fedci.diagnostics.findings import Diagnostics
from fedci.errors import OutputError
from support.diagnosed import record


def test_a_record_comes_back_from_its_file_without_jax(tmp_path):
    one = record()
    one.write(tmp_path / "d.json")
    assert Diagnostics.read(tmp_path / "d.json") == one
    code = (f"from fedci.diagnostics.findings import Diagnostics; import sys; "
            f"print(Diagnostics.read({str(tmp_path / 'd.json')!r})); sys.exit('jax' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(one).strip())


def test_a_damaged_record_is_said_to_be_one(tmp_path):
    (tmp_path / "d.json").write_text(record().to_json()[:-9])
    with pytest.raises(OutputError, match="damaged"):
        Diagnostics.read(tmp_path / "d.json")
    (tmp_path / "d.json").write_text(record().model_copy(update={"format": 99}).to_json())
    with pytest.raises(OutputError, match="format 99"):
        Diagnostics.read(tmp_path / "d.json")
    with pytest.raises(OutputError, match="without diagnostics"):
        Diagnostics.read(tmp_path / "none.json")


def test_a_sealed_record_does_not_tell_the_effect():
    one = record().sealed()
    assert one.heterogeneity is one.sensitivity is None
    assert one.refuters[0].estimate is None
    assert one.refuters[0].z == record().refuters[0].z
    text = one.to_json() + str(one)
    assert "Blinded" in text
    assert "E-value" not in text
    assert '"0.6' not in text
