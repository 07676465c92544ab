"""What the build of the documentation adds to Sphinx: equations without a network, and the order of the gallery."""

from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ORDER = ("idea", "efficiency", "newcomb", "contamination", "wine_graph", "rings", "ising")


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.connect("doctree-read", trimmed)
    return {"parallel_read_safe": True}


def inline(translator, node):
    """TeX as MathML, which browsers draw themselves: no script, no images, no network."""
    _write(translator, node, as_block=False)


def displayed(translator, node):
    _write(translator, node, as_block=True)


def _write(translator, node, *, as_block: bool):
    translator.body.append(tex2mathml(node.astext(), as_block=as_block))
    raise nodes.SkipNode


def trimmed(app, doctree):
    """Take off the blank line that ends a doctest within Markdown."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            block.rawsource = block.astext().rstrip()
            block[:] = [nodes.Text(block.rawsource)]


def in_order(name: str) -> int:
    """The place of an example in the gallery; those that are not named come last."""
    stem = Path(name).stem
    return ORDER.index(stem) if stem in ORDER else len(ORDER)


def quickly(gallery_conf, script_vars) -> list[str]:
    """Examples of the gallery run in their short form."""
    return ["--quick"]
