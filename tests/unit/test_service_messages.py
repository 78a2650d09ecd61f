"""Where a body is wrong: msgspec says it in its message only, whose forms a new version may change."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.service import schemas
from hedgerow.service.schemas import Problem, decode


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"instances": [[1, "x"]]}',
            "Expected `float | null`, got `str` - at `$.instances[0][1]`",
        ),
        (b"{}", "Object missing required field `instances`"),
        (b'{"instances": [[1]], "idz": []}', "Object contains unknown field `idz`"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_the_forms_of_its_messages(body, message):
    with pytest.raises(msgspec.ValidationError) as found:
        msgspec.json.decode(body, type=schemas.PredictRequest)
    assert str(found.value) == message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"labels": [{"id": "a", "label": null}]}', "labels[0].label"),
        (b'{"labels": [{"id": "a"}]}', "labels[0].label"),
        (b'{"labels": [{"id": "a", "label": 1, "weight": 2}]}', "labels[0].weight"),
        (b"{}", "labels"),
        (b"7", "body"),
    ],
)
def test_the_field_that_a_problem_names(body, field):
    with pytest.raises(Problem) as found:
        decode(body, schemas.LabelRequest)
    assert found.value.errors[0].field == field
