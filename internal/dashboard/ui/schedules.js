// Schedules: when they come next, and how it went last.
import { h, count, span, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, busy, confirm, redraw } from "./state.js";
import { badge, button, empty, facts, fault, jobLink, link, loading, poolLink, section, table, to } from "./parts.js";

const rule = (s) => (s.cron ? [h("code", null, s.cron), s.zone ? h("span", { class: "quiet" }, " " + s.zone) : null] : "every " + span(s.every));

function actions(s, changed, more) {
  const where = path("v1", "schedules", s.name);
  const run = async () => {
    if (!(await confirm({ title: "Run " + s.name + " now?", text: "Its job is enqueued once more. The ticks to come stay as they are.", verb: "Run now" }))) return;
    act("run" + s.name, (ref) => "enqueued as " + ref.id, async () => { const ref = await send("POST", where + "/run"); changed(); return ref; });
  };
  const pause = (verb) => act("pause" + s.name, s.name + (verb === "pause" ? " is paused" : " goes on"), async () => { await send("POST", where + "/" + verb); changed(); });
  return [
    button("Run now", "submit", run, { busy: busy("run" + s.name), "aria-label": "Run " + s.name + " now", key: "run" }),
    s.paused ? button("Resume", "admin", () => pause("resume"), { busy: busy("pause" + s.name), "aria-label": "Resume " + s.name, key: "resume" })
      : button("Pause", "admin", () => pause("pause"), { busy: busy("pause" + s.name), "aria-label": "Pause " + s.name, key: "pause" }),
    more,
  ];
}

const last = (s) => [s.last ? when(s.last) : h("span", { class: "quiet" }, "never"), " ", s.last_job ? jobLink(s.last_job) : null, " ", s.last_state ? badge(s.last_state) : null];

export function schedules() {
  let all, error, due = 0;
  async function load(force) {
    if (!force && Date.now() < due) return;
    due = Date.now() + 3000;
    try {
      all = (await get("/v1/schedules")).schedules;
      error = null;
    } catch (e) {
      error = e;
    }
    redraw();
  }
  function view() {
    return [
      h("h1", null, "Schedules"),
      error ? (error.nowhere ? empty("This daemon has no schedules.") : fault(error, () => load(true))) : null,
      all ? (all.length ? table("Schedules", [
        { name: "Schedule", cell: (s) => h("strong", null, link(to("schedules", s.name), s.name)) },
        { name: "Rule", cell: rule },
        { name: "Pool", cell: (s) => poolLink(s.pool) },
        { name: "Next", look: "number", cell: (s) => (s.paused ? badge("paused") : when(s.next)) },
        { name: "Last", cell: last },
        { name: "Fired", look: "number", cell: (s) => count(s.fired || 0) },
        { name: "Skipped", look: "number", cell: (s) => (s.skipped ? count(s.skipped) : "–") },
        { name: "Fault", look: "wide", cell: (s) => (s.error ? h("span", { class: "bad clip", title: s.error }, s.error) : null) },
        { name: "Actions", hide: true, look: "end", cell: (s) => actions(s, () => load(true)) },
      ], all, (s) => s.name) : empty("There are no schedules.", h("p", null, "Add one to bullpen.yaml under ", h("code", null, "schedules:"), ", or by ", h("code", null, "bullpen schedule add"), "."))) : error ? null : loading(),
    ];
  }
  return { title: "Schedules", view, live: () => load(), tick: () => load(), start: () => load(true) };
}

export function schedule({ name }) {
  let s, error, due = 0;
  const where = path("v1", "schedules", name);
  async function load(force) {
    if (!force && Date.now() < due) return;
    due = Date.now() + 3000;
    try {
      s = await get(where);
      error = null;
    } catch (e) {
      error = e;
    }
    redraw();
  }
  async function remove() {
    if (!(await confirm({ title: "Remove " + name + "?", text: "It fires no more. Jobs that it has enqueued stay. This cannot be undone.", verb: "Remove", danger: true }))) return;
    act("remove" + name, name + " is removed", async () => { await send("DELETE", where); location.hash = "#/schedules"; });
  }
  function view() {
    const head = h("h1", null, link("/schedules", "Schedules", { class: "quiet" }), " / ", name, " ", s?.paused ? badge("paused") : null);
    if (!s) return [head, error ? (error.status === 404 ? empty("There is no such schedule.") : fault(error, () => load(true))) : loading()];
    const job = s.job || {};
    return [
      h("div", { class: "head" }, head, h("div", { class: "actions" }, actions(s, () => load(true), s.origin === "config" ? null : button("Remove", "admin", remove, { danger: true, busy: busy("remove" + name), key: "remove" })))),
      error ? fault(error, () => load(true)) : null,
      s.error ? h("div", { class: "fault" }, h("p", null, s.error)) : null,
      facts([
        ["Rule", rule(s)], ["Next", s.paused ? "" : when(s.next)], ["Last", last(s)], ["Fired", count(s.fired || 0)], ["Skipped", count(s.skipped || 0)],
        ["Missed ticks", { once: "made up for once", skip: "left out", all: "each made up for" }[s.missed] || s.missed], ["While one runs", s.overlap === "forbid" ? "no second one" : "another one may run"],
        ["Comes from", s.origin === "config" ? "bullpen.yaml: it is changed there" : "the API"], ["Pool", poolLink(s.pool)], ["Task", job.task], ["Group", job.group],
      ]),
      h("p", { class: "links" }, link("/jobs" + query({ schedule: name }), "Its jobs")),
      job.payload ? section("Payload", null, h("pre", { class: "content", tabindex: 0 }, job.payload)) : null,
    ];
  }
  return { title: name, view, live: () => load(), tick: () => load(), start: () => load(true) };
}
