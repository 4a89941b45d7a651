"""The schedules of the fake server."""

from __future__ import annotations

import json
from typing import Any, Dict


class FakeSchedules:
    """A part of fake_server.Handler. One that is called config is of the configuration; it runs once only."""

    server: Any
    words: Any
    body: bytes
    tell: Any
    answer: Any
    problem: Any

    def _found(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.server.schedules.get(self.words[1], {})
        if not found:
            self.problem(404, "not-found", "no such schedule")
        return found

    def on_get_schedules(self) -> None:
        if len(self.words) == 1:
            self.tell(200, {"schedules": list(self.server.schedules.values())})
            return
        found = self._found()
        if found:
            self.tell(200, found)

    def on_put_schedules(self) -> None:
        made = {"paused": False, **json.loads(self.body), "name": self.words[1]}
        if "every" in made:
            made["every"] = {"5m": 300, "60s": 60}[made["every"]]
            made.update(next="2026-01-31T08:05:00+09:00", upcoming=["2026-01-31T08:05:00+09:00", "2026-01-31T08:10:00+09:00"])
        self.server.schedules[self.words[1]] = made
        self.tell(200, made)

    def on_delete_schedules(self) -> None:
        if self.words[1] == "config":
            self.problem(409, "managed", "it is from the configuration")
        elif self._found():
            del self.server.schedules[self.words[1]]
            self.answer(204)

    def on_post_schedules_pause(self) -> None:
        self._change(paused=True)

    def on_post_schedules_resume(self) -> None:
        self._change(paused=False)

    def _change(self, **change: object) -> None:
        found = self._found()
        if found:
            found.update(change)
            self.tell(200, found)

    def on_post_schedules_run(self) -> None:
        found = self._found()
        if found and found.get("ran"):
            self.problem(409, "overlap", "the last job has not ended")
        elif found:
            found["ran"] = True
            self.tell(202, {"id": "J0", "pool": found["pool"], "state": "queued"})
