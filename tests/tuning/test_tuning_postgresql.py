"""Studies in a real PostgreSQL server, of which neither messages nor tables tell the password."""

import os
import subprocess

import pytest
import six_layers
from postgresql import SECRET, needs_postgresql, postgresql_server  # noqa: F401 - the fixture "server"

from themis_opt.tuning.storage import StorageError, open_storage
from themis_opt.tuning.tuner import tune

pytestmark = needs_postgresql


def test_a_study_is_kept_and_resumed(server: str) -> None:
    url, instance = f"postgresql+psycopg://me:{SECRET}@{server}", six_layers.iteration()
    first = tune(instance, trials=2, storage=url, study="one")
    again = tune(instance, trials=3, storage=url, study="one")
    assert [trial.choice for trial in again.trials[:2]] == [trial.choice for trial in first.trials]
    assert SECRET not in repr(again) + again.storage
    dump = ["pg_dump", f"postgresql://me@{server}", "--data-only"]
    kept = subprocess.run(dump, capture_output=True, text=True, check=True, env={**os.environ, "PGPASSWORD": SECRET})
    assert "one" in kept.stdout
    assert SECRET not in kept.stdout


@pytest.mark.parametrize("url", ["me:wrong-{0}@{1}", "{1}?user=me&password=wrong-{0}"])
def test_a_wrong_password_is_not_told(server: str, url: str) -> None:
    with pytest.raises(StorageError, match="password authentication failed") as caught:
        open_storage("postgresql+psycopg://" + url.format(SECRET, server))
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
