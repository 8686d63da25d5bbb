"""Where the weights are, and that a failed generation leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpd.local.home import Home
from dpd.local.models import ModelFailed, generate, model_folder
from dpd.local.tiny_model import SPECIAL, VOCABULARY, corpus, write_config
from dpd.spec.local_deployment import LocalDeployment


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    file = tmp_path / "requirements-engines.txt"
    file.write_text("numpy==2.4.1\n", encoding="utf-8")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home whose engines have a Python that writes one file, or fails where `broken` is there."""
    home = Home(tmp_path / "home")
    python = home.engines / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\n[ -e {tmp_path}/broken ] && echo "no numpy" >&2 && exit 1\ntouch "$4/config.json"\n'
    )
    python.chmod(0o755)
    return home


def with_weights(deployment: LocalDeployment, **update: object) -> LocalDeployment:
    weights = deployment.model.weights.model_copy(update=update)
    return replace(deployment, model=deployment.model.model_copy(update={"weights": weights}))


def test_a_folder_of_the_user_is_used_as_it_is(
    deployment: LocalDeployment, home: Home, requirements: Path
) -> None:
    own = with_weights(deployment, source="local", path="/models/mine")
    assert model_folder(own, home, requirements) == Path("/models/mine")


def test_a_generated_model_is_named_after_its_recipe(
    deployment: LocalDeployment, home: Home, requirements: Path
) -> None:
    folder = model_folder(deployment, home, requirements)
    assert folder.parent == home.models
    assert folder == model_folder(deployment, home, requirements)
    requirements.write_text("numpy==2.5.0\n", encoding="utf-8")
    assert folder != model_folder(deployment, home, requirements)


def test_a_model_is_generated_whole(deployment: LocalDeployment, home: Home) -> None:
    generate(deployment, home.models / "tiny", home)
    assert [path.name for path in home.models.iterdir()] == ["tiny"]
    assert (home.models / "tiny" / "config.json").exists()


def test_a_failed_generation_leaves_nothing(deployment: LocalDeployment, home: Home, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(ModelFailed, match="no numpy"):
        generate(deployment, home.models / "tiny", home)
    assert list(home.models.iterdir()) == []


def test_the_tokenizer_is_trained_on_the_same_text_each_time() -> None:
    assert list(corpus()) == list(corpus())


def test_the_config_has_the_shape_of_the_deployment(tmp_path: Path) -> None:
    shape = {"layers": 2, "hidden_size": 64, "attention_heads": 4, "kv_heads": 2, "head_dim": 16}
    write_config(tmp_path, {**shape, "dtype": "float32", "max_model_len": 512})
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    assert '"num_hidden_layers": 2' in text
    assert f'"vocab_size": {VOCABULARY}' in text
    assert f'"eos_token_id": {SPECIAL.index("<|end_of_text|>")}' in text
