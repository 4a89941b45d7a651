// The workers of this node.
import { h, bytes, count, span } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, app, busy, confirm, redraw } from "./state.js";
import { badge, button, choice, empty, fault, jobLink, loading, poolLink, section, table } from "./parts.js";

const isJob = (id) => /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id);

export function workersTable(workers, changed, withPool) {
  async function recycle(w) {
    if (!(await confirm({ title: "Replace " + w.id + "?", text: "Its successor is ready before it leaves" + (w.in_hand ? ", and what it has in hand ends first." : "."), verb: "Replace" }))) return;
    act("recycle" + w.id, w.id + " is being replaced", () => send("POST", path("v1", "workers", w.id, "recycle") + query({ pool: w.pool })).then(changed));
  }
  if (!workers.length) return empty("There is no worker now. One starts when a task comes.");
  return table("Workers", [
    { name: "Worker", cell: (w) => h("strong", null, w.id) },
    withPool ? { name: "Pool", cell: (w) => poolLink(w.pool) } : null,
    { name: "State", cell: (w) => [badge(w.state), w.recycling && w.state !== "leaving" ? badge("being replaced", "warn") : null] },
    { name: "Process", look: "number", cell: (w) => w.pid || "–" },
    { name: "Has in hand", cell: (w) => (w.in_hand ? [w.task_name ? w.task_name + " " : null, w.task ? (isJob(w.task) ? jobLink(w.task) : h("span", { class: "id", title: w.task }, w.task)) : null, w.task_age ? h("span", { class: "quiet" }, " for " + span(w.task_age)) : null, w.in_hand > 1 ? h("span", { class: "quiet" }, " and " + (w.in_hand - 1) + " more") : null] : h("span", { class: "quiet" }, w.idle ? "idle for " + span(w.idle) : "–")) },
    { name: "Tasks done", look: "number", cell: (w) => count(w.tasks) },
    { name: "Memory", look: "number", cell: (w) => (w.memory ? bytes(w.memory) : "–") },
    { name: "Age", look: "number", cell: (w) => span(w.age) },
    { name: "Actions", hide: true, look: "end", cell: (w) => button("Recycle", "admin", () => recycle(w), { busy: busy("recycle" + w.id), off: w.recycling || w.state === "leaving", "aria-label": "Recycle " + w.id }) },
  ], workers, (w) => w.pool + " " + w.id);
}

export function workers({ pool }) {
  let all, error, next = 0;
  async function load(force) {
    if (!force && Date.now() < next) return;
    next = Date.now() + 2000;
    try {
      all = (await get("/v1/workers" + query({ pool }))).workers;
      error = null;
    } catch (e) {
      error = e;
    }
    redraw();
  }
  function view() {
    const pools = app.overview?.pools || [];
    return [
      h("h1", null, "Workers"),
      h("div", { class: "filters" }, choice("Pool", pool || "", [["", "all pools"], ...pools.map((p) => [p.name, p.name])], (v) => { location.hash = "#/workers" + query({ pool: v }); })),
      error ? fault(error, () => load(true)) : null,
      all ? workersTable(all, () => load(true), true) : error ? null : loading(),
      h("p", { class: "quiet" }, "These are the workers of the node that serves this page" + (app.me?.node ? ", " + app.me.node : "") + "."),
    ];
  }
  return { title: "Workers", view, live: () => load(), tick: () => load(), start: () => load(true) };
}
