"""Whatever is sent to a real serving process, its answers are those that OpenAPI announces."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.cli import Cli, fill
from support.faults import FaultyS3
from support.served import Served

load_all_checks()

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.timeout(600)
def test_no_call_leads_to_a_5xx_or_to_an_answer_nobody_announced(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 5)
    faulty.denied.add("exports/00001.json")
    with Served(cli) as there:
        assert there.post("/cleanup/plan", json={"policy": "exports"}).status_code < 300
        schema = schemathesis.openapi.from_dict(there.json("/openapi.json"))
        operations = [found.ok() for found in schema.get_all_operations()]
        seen = {operation.label: statuses(operation, there) for operation in operations}
        assert there.http.get("/readyz").status_code == 200
        assert "Traceback" not in there.child.said()
    reads = [found for label, found in seen.items() if label.startswith("GET")]
    assert sum(200 in found for found in reads) >= 8


def statuses(operation: Any, there: Served) -> set[int]:
    """What made-up calls of *operation* were answered with, each as it was announced."""
    token = {"Authorization": f"Bearer {there.token('operate', 'trigger')}"}
    found: set[int] = set()

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        answer = case.call(base_url=there.url, headers=token)
        found.add(answer.status_code)
        assert answer.status_code < 500, (answer.status_code, answer.text)
        case.validate_response(answer, checks=CHECKS)

    call()
    return found


def test_every_route_has_a_summary_and_every_body_an_example(cli: Cli) -> None:
    with Served(cli, "--no-work") as there:
        spec = there.json("/openapi.json")
        assert spec["components"]["securitySchemes"]
        for path, routes in spec["paths"].items():
            for method, route in routes.items():
                assert route["description"], (method, path)
                assert any(code.startswith("2") for code in route["responses"]), (method, path)
                if path not in ("/healthz", "/readyz"):
                    assert {"401", "403", "422", "429", "503"} <= route["responses"].keys()
        text = str(spec)
        assert "HTTPValidationError" not in text
        assert "http://" not in text.replace("http://127.0.0.1:8333", "")
