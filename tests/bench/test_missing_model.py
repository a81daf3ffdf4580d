"""Benchmarks without the embedding model: they say so, and do not wait for vectors for ever."""

from pathlib import Path

import pytest
from recollect_server.recall.model.weights import NoWeights

from bench import servers


def test_whoever_waits_for_vectors_hears_that_the_model_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "shipped", lambda: tmp_path / "nowhere")
    with pytest.raises(NoWeights, match="install recollect-server again"):
        servers.embedded(tmp_path)
