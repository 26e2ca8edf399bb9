"""Results beside the scenarios: kept under the scenario's hash, the engine's version and the catalog's digest."""

from __future__ import annotations

from sqlalchemy import select

from db.models import ResultRow
from db.records import Saved
from db.rows import check_belongs, put_result, unpack_result
from db.sessions import Sessions
from planner.result import Result
from planner.scenario import Scenario


class Results(Sessions):
    """Keep results and find them again. All of them can be computed anew."""

    def put_result(self, result: Result) -> None:
        """Keep a result under its scenario's hash, its engine version and its catalog digest."""
        check_belongs(result, result.scenario)
        with self._write("save the result") as session:
            put_result(session, result)

    def result_for(self, scenario: Scenario, engine_version: str, catalog_digest: str) -> Result | None:
        """The result of exactly this scenario, engine and catalog, or None."""
        key = (scenario.content_hash(), engine_version, catalog_digest)
        with self._read("read the result") as session:
            row = session.get(ResultRow, key)
            result = None if row is None else unpack_result(row.body)
        if result is None:
            return None
        # The hash leaves the display-only preset out, so the stored one may carry another.
        return result.model_copy(update={"scenario": scenario})

    def latest_result(self, what: Scenario | Saved) -> tuple[Result, str, str] | None:
        """The newest readable result, with its engine version and catalog digest, whichever computed it.

        A saved scenario also finds results under the hash that it had when it was saved, which a later version of
        the scenario's schema may have changed.
        """
        scenario = what if isinstance(what, Scenario) else what.scenario
        hashes = {scenario.content_hash()}
        if not isinstance(what, Scenario):
            hashes.add(what.scenario_hash)
        statement = select(ResultRow).where(ResultRow.scenario_hash.in_(hashes)).order_by(ResultRow.created_at.desc())
        with self._read("read the result") as session:
            for row in session.scalars(statement):
                if (result := unpack_result(row.body)) is not None:
                    return result, row.engine_version, row.catalog_digest
        return None
