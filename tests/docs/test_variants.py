"""Pages show images of the dashboard in the variant that fits the page."""

import importlib.util

import pytest

from tests.paths import ROOT


@pytest.fixture(scope="module")
def variants():
    spec = importlib.util.spec_from_file_location("variants", ROOT / "docs" / "variants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "screens").mkdir()
    for name in ("home", "home-narrow", "home-dark", "home-narrow-dark", "weeks", "weeks-dark"):
        (tmp_path / "screens" / f"{name}.png").touch()
    return tmp_path


def test_an_image_has_variants_of_each_width_and_theme(variants, docs):
    got = variants.with_variants('<p><img alt="All" src="../screens/home.png" /></p>', docs)
    media = variants.NARROW
    assert got == (
        '<p><span class="when-light"><picture>'
        f'<source media="{media}" srcset="../screens/home-narrow.png">'
        '<img alt="All" src="../screens/home.png" loading="lazy"></picture></span>'
        '<span class="when-dark"><picture>'
        f'<source media="{media}" srcset="../screens/home-narrow-dark.png">'
        '<img alt="All" src="../screens/home-dark.png" loading="lazy"></picture></span></p>'
    )


def test_missing_variants_are_left_out(variants, docs):
    got = variants.with_variants('<img alt="" src="screens/weeks.png">', docs)
    assert "narrow" not in got
    assert 'src="screens/weeks-dark.png"' in got


@pytest.mark.parametrize("name", ["screens/incident.png", "flights.svg", "pictures/home.png"])
def test_other_images_are_unchanged(variants, docs, name):
    html = f'<img alt="" src="{name}" />'
    assert variants.with_variants(html, docs) == html
