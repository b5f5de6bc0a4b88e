"""Fixtures: the content of a result of a link, and a file of it."""

import pytest
from mdm_result import mdm_payload

from wavefabric.base.results import ResultWriter


@pytest.fixture
def payload():
    return mdm_payload()


@pytest.fixture
def result_file(tmp_path, payload):
    return ResultWriter(tmp_path / "out.h5").write(payload, run_file='title = "x"\n')
