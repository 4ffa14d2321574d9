"""Components in words: every model of the table, as text and as HTML."""

import xml.etree.ElementTree as ET

import pytest

from mixle.stats import (
    CategoricalDistribution,
    GammaDistribution,
    GaussianDistribution,
    HiddenMarkovModelDistribution,
    MixtureDistribution,
    OptionalDistribution,
    PoissonDistribution,
    RecordDistribution,
    SequenceDistribution,
)
from mixle.tables import summary
from mixle.tables.words import law_text
from models import MODELS


def visit(name, mean):
    kind = CategoricalDistribution({name: 0.75, "other": 0.25})
    return RecordDistribution({"drink": kind, "day": OptionalDistribution(GaussianDistribution(mean, 4.0), 0.25)})


MODEL = MixtureDistribution([visit("tea", 365.0), visit("<coffee>", 0.0)], [0.25, 0.75])


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_words(name):
    found = summary(MODELS[name]().dist)
    assert found.parts
    assert all(text for *_, fields in found.parts for _, text in fields)
    assert ET.fromstring(found._repr_html_()).tag == "table"


def test_components_are_told_the_heaviest_first():
    text = str(summary(MODEL, [("day", "days")]))
    assert text == (
        "Cluster 1: 75.0 % of the rows\n"
        "    drink  <coffee> 75 %, other 25 %\n"
        "    day    1970-01-01 (day 0) ± 2 days; 25 % missing\n"
        "Cluster 0: 25.0 % of the rows\n"
        "    drink  tea 75 %, other 25 %\n"
        "    day    1971-01-01 (day 365) ± 2 days; 25 % missing"
    )


def test_html_is_a_table_with_headings():
    page = ET.fromstring(summary(MODEL)._repr_html_())
    assert [cell.text for cell in page.findall("thead/tr/th")] == ["Cluster", "share", "drink", "day"]
    assert [cell.text for cell in page.findall("tbody/tr/th")] == ["Cluster 1", "Cluster 0"]
    assert page.find("tbody/tr/td[2]").text == "<coffee> 75 %, other 25 %"
    assert page.find("caption").text == "Clusters in words"


def test_states_and_single_laws():
    law = SequenceDistribution(PoissonDistribution(2.0), PoissonDistribution(3.0))
    chain = HiddenMarkovModelDistribution([PoissonDistribution(2.0), law.dist], [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    assert "State 0: starts 50 %, stays 90 %\n    value  2 on average" in str(summary(chain))
    assert str(summary(law)) == "Model\n    value  items 2 on average; length 3 on average"


def test_a_law_of_days_says_so():
    long = GammaDistribution(2.0, 3.0)
    assert law_text(long, "durations") == f"{law_text(long)} (in days)"
    assert law_text(long, "days") == f"{law_text(long)} (in days since 1970-01-01)"
    assert law_text(GaussianDistribution(2.0, 0.25), "durations") == "2 ± 0.5 days"
