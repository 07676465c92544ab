"""Files that were cut off or changed: they are read as what they were, or refused in words."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import minstein as ms
from minstein.solvers.checkpoint import Checkpoint

X = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0, 0.9])


@pytest.fixture(scope="module")
def fit() -> ms.Fit:
    return ms.fit(ms.models.Gaussian(0.0, 1.0), X, ms.SM(), solver=ms.GaussNewton(starts=1), key=jax.random.key(0))


@pytest.fixture(scope="module")
def text(fit, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("fit") / "fit.json"
    fit.save(path)
    return path.read_text(encoding="utf-8")


def refused_or_same(fit: ms.Fit, path: Path) -> bool:
    """Whether the file is refused by an error of ours; if it is read, it must be the same fit."""
    found, refusal = outcome(lambda: ms.load(path))
    assert str(path) in refusal if refusal else eqx.tree_equal(found, fit)
    return bool(refusal)


def outcome(read: Callable) -> tuple[Any, str]:
    """What was read, or the text of the ValueError."""
    try:
        return read(), ""
    except ValueError as reason:
        return None, str(reason)


def test_a_file_that_is_cut_off_anywhere(fit, text, tmp_path):
    path, whole = tmp_path / "fit.json", text.encode()
    for end in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:end])
        assert refused_or_same(fit, path)


def places(node, path=()):
    """Every place in a JSON document."""
    yield path
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


NESTED = json.loads("[" * 500 + "]" * 500)
VALUES = [None, True, -5, 1.5, float("nan"), 10**400, "text", [], [[1], [2, 3]], {}, {"array": 1}, NESTED]


def changed(document, path: tuple, value) -> dict:
    document = copy.deepcopy(document)
    *above, last = path
    node = document
    for key in above:
        node = node[key]
    if value is DELETED:
        del node[last]
    else:
        node[last] = value
    return document


DELETED = object()


def test_a_file_that_was_changed_anywhere(fit, text, tmp_path):
    """Every entry is deleted, and takes each of some other values."""
    path, document = tmp_path / "fit.json", json.loads(text)
    spots = [spot for spot in places(document) if spot]
    for i, spot in enumerate(spots):
        for value in (DELETED, VALUES[i % len(VALUES)], VALUES[(5 * i + 3) % len(VALUES)]):
            path.write_text(json.dumps(changed(document, spot, value)))
            refused_or_same(fit, path)


def test_a_file_without_a_digest_that_was_changed_anywhere(text, tmp_path):
    """As those of 0.1: what is read can be printed, or is refused; nothing else is raised."""
    path, document = tmp_path / "fit.json", json.loads(text)
    document.pop("sha256", None)
    refusals = 0
    spots = [spot for spot in places(document) if spot]
    for i, spot in enumerate(spots):
        for value in (DELETED, VALUES[i % len(VALUES)], VALUES[(5 * i + 3) % len(VALUES)]):
            path.write_text(json.dumps(changed(document, spot, value)))
            found, refusal = outcome(lambda: ms.load(path))
            assert "not a fit that minstein saved" in refusal if refusal else str(found) and repr(found.model)
            refusals += bool(refusal)
    assert refusals > len(spots)


@pytest.mark.parametrize(("field", "value", "reason"), [
    ("n", -5, "n is -5"),
    ("n", True, "n is True"),
    ("d", 0, "d is 0"),
    ("theta", [float("nan"), 1.0], "not finite"),
    ("cov", [[-1.0, 0.0], [0.0, 1.0]], "a variance is negative"),
    ("cov", [[1.0, 0.5], [0.0, 1.0]], "not symmetric"),
    ("cov", [[1.0, 5.0], [5.0, 1.0]], "larger than its variances allow"),
    ("status", 77, "its status is unknown"),
    ("steps", -1, "number of steps is negative"),
    ("theta", [1.0, 1.0], "the model is at other values"),
    ("theta", ["0.5", "0.9"], "something other than its numbers"),
])  # fmt: skip
def test_values_that_no_fit_has(text, tmp_path, field, value, reason):
    path, document = tmp_path / "fit.json", json.loads(text)
    document.pop("sha256", None)
    entry = document["content"]["fields"]
    if isinstance(entry[field], dict):
        entry[field]["array"] = value
    else:
        entry[field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=reason):
        ms.load(path)


@pytest.mark.slow
def test_replications_are_read_as_they_were(tmp_path):
    with jax.enable_x64(True):
        many = jax.vmap(lambda x: ms.fit(ms.models.Gaussian(0.0, 1.0), x, ms.SM()))(np.stack([X, X + 1]))
    many.save(tmp_path / "many.json")
    np.testing.assert_array_equal(ms.load(tmp_path / "many.json").theta, many.theta)


# Other data than the fit's


@pytest.mark.parametrize("other", [X + 1, X[::-1], np.append(X[:-1], 1.1)], ids=["moved", "permuted", "one value"])
def test_other_data_of_the_same_shape_are_refused(fit, other):
    for ask in (ms.influence, ms.dfbeta, ms.report, lambda fit, x: ms.bootstrap(fit, x, jax.random.key(0))):
        with pytest.raises(ValueError, match=r"x has other values, or the same in another order"):
            ask(fit, other)


def test_the_same_data_in_another_form_are_taken(fit, text, tmp_path):
    """As a column, a list, an array of JAX, with −0 for 0; and where the digest is not known, anything is."""
    expected = ms.influence(fit, X)
    np.testing.assert_array_equal(ms.influence(fit, X[:, None]), expected)
    np.testing.assert_array_equal(ms.influence(fit, X.tolist()), expected)
    with jax.enable_x64(True):
        np.testing.assert_allclose(ms.influence(fit, jax.numpy.asarray(X)), expected, rtol=1e-10)
    zeros = [
        ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([zero, 1.0, 2.0]), ms.SM()) for zero in (0.0, -0.0)
    ]
    assert zeros[0].data == zeros[1].data != ""
    document = json.loads(text)
    for place in (document, document["content"]["fields"]):
        place.pop("sha256" if place is document else "data", None)
    (tmp_path / "old.json").write_text(json.dumps(document))
    old = ms.load(tmp_path / "old.json")
    assert old.data == ""
    assert np.isfinite(ms.influence(old, X + 1)).all()


# Checkpoints

WALK = {"eta": np.array([0.5, 1.5], "f4"), "steps": np.asarray(3, "i4"), "key": jax.random.key(1)}


@pytest.fixture
def checkpoint(tmp_path) -> Checkpoint:
    saved = Checkpoint(tmp_path / "walk.npz", "mark")
    saved.save(WALK)
    return saved


def same_walk(found: dict) -> bool:
    return all(np.array_equal(found[name], WALK[name]) for name in ("eta", "steps")) and bool(
        found["key"] == WALK["key"]
    )


def test_a_checkpoint_that_is_cut_off_or_changed_anywhere(checkpoint):
    assert same_walk(checkpoint.resume(WALK))
    whole = checkpoint.path.read_bytes()
    damaged = [whole[:end] for end in range(0, len(whole), 11)]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(0, len(whole), 5)]
    for content in damaged:
        checkpoint.path.write_bytes(content)
        found, refusal = outcome(lambda: checkpoint.resume(WALK))
        assert "cannot be resumed" in refusal if refusal else same_walk(found)


@pytest.mark.parametrize("content", [
    {"arr_0": np.asarray("mark")},
    {"arr_0": np.asarray("mark"), "arr_1": np.array(["a", "b"]), "arr_2": np.asarray(3), "arr_3": np.zeros(2, "u4")},
    {"arr_0": np.asarray("mark"), "arr_1": np.array([1j, 2]), "arr_2": np.asarray(3), "arr_3": np.zeros(2, "u4")},
    {"other": np.zeros(2)},
])  # fmt: skip
def test_arrays_that_no_checkpoint_has(checkpoint, content):
    np.savez(checkpoint.path, **content)
    with pytest.raises(ValueError, match="cannot be resumed"):
        checkpoint.resume(WALK)


def test_a_single_array_is_not_a_checkpoint(checkpoint):
    with open(checkpoint.path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="cannot be resumed"):
        checkpoint.resume(WALK)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as Unix has them")
def test_a_pipe_is_not_a_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "walk.npz")
    with pytest.raises(ValueError, match="not a regular file"):
        Checkpoint(tmp_path / "walk.npz", "mark").resume(WALK)
