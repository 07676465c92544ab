"""The report: it says what the fit says, and nothing in the data can do anything on the page."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.inference.bootstrap import Bootstrap
from minstein.report.evidence import distinct_names

from .browser import chromium

X = ms.datasets.load("newcomb").x
HOSTILE = (
    "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>&amp; $\\frac{ #0072b2 \x00\u202e\ud800"
)


class Page(HTMLParser):
    """What is on a page: tags with their attributes, cells of tables, text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.cells, self.text, self._open = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.cells[-1] += data
        if "style" not in self._open:
            self.text += data


@pytest.fixture(scope="module")
def fit():
    return ms.fit(ms.models.Gaussian(0.0, 1.0), X, ms.SM())


def hostile_report(fit):
    theta = np.array([[26.0, 10.0], [27.0, 11.0], [25.0, 9.0], [0.0, 1.0]])
    return ms.report(
        fit,
        X,
        columns=[HOSTILE],
        title=f"Title {HOSTILE}",
        command=f"fit 'a file' --columns {HOSTILE}",
        seed=7,
        bootstrap=Bootstrap(theta, np.array([True, True, True, False]), fit.names),
        notes=[HOSTILE],
    )


@pytest.fixture(scope="module")
def text(fit):
    return hostile_report(fit)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_table_is_that_of_the_summary(fit, page):
    for name, values in fit.summary().rows:
        start = page.cells.index(name)
        assert page.cells[start + 1 : start + 5] == [f"{v:.4g}" for v in values]
    # Score matching of a Gaussian gives mean and standard deviation, and the mean's error is sd/√n.
    assert f"{X.mean():.4g}" in page.cells
    assert f"{X.std() / np.sqrt(66):.4g}" in page.cells


def test_the_row_that_matters_is_named(page):
    wild = int(X.argmin())
    assert f"Row {wild} alone moved an estimate" in page.text
    row = page.cells.index("by std. errors") + 1
    mean, sd, n = X.mean(), X.std(), 66
    # sd² is a mean of squares, so that one observation moves sd by ((x − mean)² − sd²)/(2 sd) / (n − 1) to first order
    influence = ((X[:, 0] - mean) ** 2 - sd**2) / (2 * sd)
    shift = influence[wild] / (n - 1) / np.sqrt((influence**2).sum() / n**2)
    assert page.cells[row : row + 4] == [str(wild), "-44", "scale", f"{shift:+.2f}"]


def test_cautions(page):
    assert "can move it without limit" in page.text
    assert "1 of 4 bootstrap replications did not converge" in page.text
    assert "The bootstrap disagrees with the standard errors of scale" in page.text  # 1 against 3.5


def test_the_bootstrap_is_shown(fit, page):
    start = page.cells.index("bootstrap")
    assert page.cells[start + 3 : start + 6] == ["loc", f"{fit.bse['loc']:.4g}", "1"]  # of 25, 26 and 27


def test_how_to_do_it_again(page):
    assert "fit 'a file' --columns" in page.text
    assert all(f"{name} {module.__version__}" in page.text for name, module in (("minstein", ms), ("numpy", np)))


def test_nothing_from_outside_becomes_markup(text, page):
    kinds = {tag for tag, _ in page.tags}
    assert not kinds & {"script", "img", "iframe", "object", "link", "base", "a", "form"}
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "<script>document.title='owned'</script>" in page.text
    assert len(re.findall("https?://", text)) == len(re.findall('xmlns="http://www.w3.org/2000/svg"', text))


def test_ids_are_unique_and_what_is_used_is_there(text, page):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', text))
    assert used
    assert used <= set(ids)


def test_figures_are_whole_and_take_the_page_s_colours(text):
    figures = [ET.fromstring(svg) for svg in re.findall("<svg.*?</svg>", text, flags=re.DOTALL)]
    assert len(figures) == 5  # density, loss, influence, shifts, trace
    assert all(figure.get("role") == "img" and figure.get("aria-label") for figure in figures)
    words = " ".join("".join(node.itertext()) for figure in figures for node in figure.iter() if "text" in node.tag)
    assert "<script>" in words
    assert "$\\frac{ #0072b2" in words
    assert "var(--blue)" in text
    assert "#0072b2" not in re.sub(">[^<]*<", "><", text.split("</style>")[1])
    assert "pyplot" not in text


@pytest.mark.slow
def test_the_same_arguments_give_the_same_page(fit, text):
    assert hostile_report(fit) == text


@pytest.fixture(scope="module")
def failed():
    laplace = ms.models.from_log_density(lambda p, x: -jnp.abs(x[0] - p["m\x00<b>"]), {"m\x00<b>": 0.5})
    return ms.fit(laplace, X, ms.SM(), throw=False)


def test_it_is_written_whole(failed, tmp_path):
    path = tmp_path / "report.html"
    text = ms.report(failed, X, path)
    assert path.read_text(encoding="utf-8") == text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_fit_that_failed_gets_an_honest_report(failed):
    page = Page(ms.report(failed, X))
    assert not failed.converged
    assert page.text.index(failed.message) < page.text.index("Estimates")
    assert "hold it with ms.fixed" in page.text
    assert "m\ufffd<b>" in page.cells
    assert "std. error" not in page.cells
    assert "Influence and robustness were not computed: there is no minimum" in page.text


def test_no_standard_errors_where_none_were_asked_for():
    fit = ms.fit(ms.models.Gaussian(0.0, 1.0), X, ms.SM(), covariance=False)
    page = Page(ms.report(fit, X))
    assert "There are no standard errors: none were asked for" in page.text
    assert "std. error" not in page.cells


@pytest.mark.slow
def test_a_discrete_fit_has_influence_but_no_density():
    """With one field, MPF of n spins of which k are up has exp(−2h) = (n − k)/k, and each row pulls by its sign."""
    x = np.array([[1]] * 7 + [[-1]] * 3)
    fit = ms.fit(ms.models.Ising(np.zeros(1), ms.fixed(np.zeros(0))), x)
    np.testing.assert_allclose(fit.theta, np.log(7 / 3) / 2, rtol=1e-6)
    page = Page(ms.report(fit, x, columns=["spin"]))
    assert "by minimum probability flow" in page.text
    assert "a discrete model need not have" in page.text
    assert "The most influential observations" in page.text
    assert "slope of the log-density" not in page.text
    labels = [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"]
    assert any("Each variable" in label for label in labels)
    assert not any("histogram" in label for label in labels)
    for draw in (ms.plot.density, ms.plot.influence):
        with pytest.raises(TypeError, match=r"drawn over the reals, but the model lives on Finite\(values=\(-1"):
            draw(fit, x)


def test_what_does_not_belong_together_is_refused(fit):
    with pytest.raises(
        ValueError, match=r"x has shape \(65, 1\), but the fit was made from a sample of shape \(66, 1\)"
    ):
        ms.report(fit, X[1:])
    with pytest.raises(ValueError, match="columns must name each of the 1 columns of x, got 2 names"):
        ms.report(fit, X, columns=["a", "b"])
    with pytest.raises(ValueError, match="bootstrap is of a, b, but the fit is of loc, scale"):
        ms.report(fit, X, bootstrap=Bootstrap(np.zeros((2, 2)), np.array([True, True]), ("a", "b")))


def test_names_that_cannot_be_told_apart():
    assert distinct_names(("a", "m\x00", "m\x01", "b\nc")) == ("a", "m\ufffd (1)", "m\ufffd (2)", "b c")


@pytest.mark.slow
def test_many_parameters():
    data = ms.datasets.load("wine")
    z = (data.x - data.x.mean(0)) / data.x.std(0)
    i, j = np.triu_indices(13)
    statistic = lambda x: jnp.concatenate([x, -(x[:, None] * x[None, :])[i, j]])
    with pytest.warns(ms.BoundaryWarning, match="the model does not fit"):  # some columns are skewed
        fit = ms.fit(ms.models.ExponentialFamily(statistic, np.zeros(104)), z, ms.SM(), solver=ms.ClosedForm())
    page = Page(ms.report(fit, z, columns=data.columns))
    assert "All 104 parameters" in page.text
    assert page.cells.count("theta[103]") >= 1
    # The precision matrix of a Gaussian is the inverse of the covariance matrix.
    precision = np.linalg.inv(np.cov(z.T, bias=True))
    last = len(page.cells) - 1 - page.cells[::-1].index("theta[103]")
    assert float(page.cells[last + 1]) == pytest.approx(precision[12, 12] / 2, rel=1e-3)
    assert "only 178 observations for 104 parameters" in page.text


@pytest.mark.slow
def test_a_large_sample_makes_a_small_page():
    x = np.clip(np.random.default_rng(0).standard_cauchy((20_000, 2)), -1e6, 1e6)
    fit = ms.fit(ms.models.Gaussian(np.zeros(2), 1.0), x, ms.SM())
    text = ms.report(fit, x)
    assert len(text) < 1_000_000
    assert "More than 25 spreads from the median" in text


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def shown(browser, text, tmp_path):
    """The page as a browser shows it, and all that the browser says or asks for meanwhile."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page, heard = context.new_page(), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
    page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
    page.goto(path.as_uri())
    yield page, heard
    context.close()


class TestInABrowser:
    def test_it_opens_from_disk_quietly_and_hostile_names_do_nothing(self, shown):
        page, heard = shown
        page.wait_for_timeout(200)
        assert heard == []
        assert page.title().startswith("Title <script>document.title='owned'</script>")
        assert page.evaluate("document.scripts.length") == 0
        assert page.evaluate("document.documentElement.lang") == "en"

    def test_the_figures_are_drawn(self, shown):
        page, _ = shown
        boxes = page.evaluate("[...document.querySelectorAll('figure svg')].map(s => [s.clientWidth, s.clientHeight])")
        assert len(boxes) == 5
        assert all(width > 250 and 100 < height < width for width, height in boxes)
        # Text is drawn inside its figure, and not too small to read.
        sizes = page.evaluate(
            "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
        )
        assert min(sizes) > 7

    def test_the_table_has_the_numbers_of_the_fit(self, shown, fit):
        page, _ = shown
        rows = page.locator("#estimates table tbody tr").all()
        shown_rows = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in rows]
        ends = fit.conf_int()
        assert shown_rows == [
            [name, *(f"{v:.4g}" for v in (fit.params[name], fit.bse[name], *ends[name]))] for name in fit.names
        ]

    def test_a_fold_opens_by_keyboard(self, shown):
        page, _ = shown
        fold = page.locator("details").first
        inside = fold.locator("table")
        assert not inside.is_visible()
        fold.locator("summary").focus()
        page.keyboard.press("Enter")
        assert inside.is_visible()
        page.keyboard.press("Enter")
        assert not inside.is_visible()

    def test_a_narrow_screen_does_not_scroll_sideways(self, shown):
        page, _ = shown
        page.set_viewport_size({"width": 360, "height": 740})
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") == 360

    def test_dark_and_light(self, shown):
        page, _ = shown
        contrast = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for element, ground in (
                ("main", "html"),
                ("figure svg text", "figure"),
                (".lede", "html"),
                ("caption", "html"),
            ):
                contrast.append(_contrast(page, element, ground))
        assert min(contrast) > 4.5  # the WCAG asks for this much of small text

    def test_print_is_light_and_shows_what_is_folded(self, shown):
        page, _ = shown
        page.emulate_media(media="print", color_scheme="dark")
        assert _luminance(page, "html", "backgroundColor") == 1
        assert page.locator("details table").first.bounding_box()["height"] > 20


def _luminance(page, selector: str, key: str) -> float:
    """The relative luminance of a colour on the page, as the WCAG defines it."""
    colour = page.evaluate(
        "([s, k]) => { const e = document.querySelector(s), c = getComputedStyle(e);"
        " return k == 'ink' ? (e.closest('svg') ? c.fill : c.color) : c[k] }",
        [selector, key],
    )
    rgb = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(page, element: str, ground: str) -> float:
    light, dark = sorted((_luminance(page, element, "ink"), _luminance(page, ground, "backgroundColor")), reverse=True)
    return (light + 0.05) / (dark + 0.05)
