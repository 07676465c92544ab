"""Patches of the photographs that ship with scikit-learn, whitened."""

from typing import NamedTuple

import numpy as np

SIDE, KEPT, STRIP = 6, 12, 32
CONTRAST, NOISE = 0.1, 0.05
"""In units of white: the standard deviation below which a patch is left out, and that of the noise added to pixels."""


class Patches(NamedTuple):
    """Whitened patches (rows) to fit and to hold out, and the matrix that whitens pixels.

    The filter w of whitened patches is w @ whitening on pixels.
    """

    fitted: np.ndarray
    held_out: np.ndarray
    whitening: np.ndarray


def patches() -> Patches:
    """Grey patches without their mean, on the leading principal components, each scaled to variance one.

    Those to fit and those to hold out come from alternate strips of the photographs, and share no pixel. Contrast is
    not normalised: it is what makes the tails heavy. Pixels have a little noise, because whole numbers and the blocks
    of JPEG would put spikes into the density, for whose sake score matching neglects all else. Single precision is
    enough for a descent by minibatches.
    """
    rng, images = np.random.default_rng(0), _photographs()
    fitted, held_out = (np.concatenate([_noisy(rng, _cut(image, kind)) for image in images]) for kind in (0, 1))
    variances, axes = np.linalg.eigh(fitted.T @ fitted / len(fitted))
    whitening = (axes[:, -KEPT:] / np.sqrt(variances[-KEPT:])).T
    return Patches(*(part.astype(np.float32) for part in (fitted @ whitening.T, held_out @ whitening.T, whitening)))


def _photographs() -> list[np.ndarray]:
    """Luminance from 0 (black) to 1 (white)."""
    try:
        from sklearn.datasets import load_sample_images

        images = load_sample_images().images
    except ImportError as reason:
        raise ImportError(
            "The photographs come with scikit-learn, and Pillow reads them: pip install -e '.[studies]'."
        ) from reason
    return [image @ np.array([0.299, 0.587, 0.114]) / 255 for image in images]


def _cut(image: np.ndarray, kind: int) -> np.ndarray:
    """Every patch within one of the even (kind 0) or the odd (kind 1) vertical strips, if it has contrast."""
    views = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE))
    column = np.arange(views.shape[1])
    inside = (column // STRIP % 2 == kind) & ((column + SIDE - 1) // STRIP == column // STRIP)
    cut = views[:, inside].reshape(-1, SIDE * SIDE)
    return cut[cut.std(axis=1) > CONTRAST]


def _noisy(rng: np.random.Generator, cut: np.ndarray) -> np.ndarray:
    """Patches with noise, and without their mean."""
    noisy = cut + NOISE * rng.standard_normal(cut.shape)
    return noisy - noisy.mean(axis=1, keepdims=True)


def saturated(rng: np.random.Generator, n: int, whitening: np.ndarray) -> np.ndarray:
    """Whitened patches whose pixels are black or white by chance."""
    pixels = rng.integers(0, 2, (n, SIDE**2))
    return (pixels - pixels.mean(axis=1, keepdims=True)) @ whitening.T


def spread(filters, whitening) -> np.ndarray:
    """The shares of pixels and of frequencies over which the energy of a filter is spread, on average over filters."""
    images = (filters @ whitening).reshape(-1, SIDE, SIDE)
    energies = images**2, np.abs(np.fft.fft2(images)) ** 2
    return np.array([np.mean(e.sum((1, 2)) ** 2 / (e**2).sum((1, 2))) / SIDE**2 for e in energies])
