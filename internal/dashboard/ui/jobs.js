// Lists of jobs: by state, searched, many at a time.
import { h, count, relative, span, when } from "./dom.js";
import { get, query } from "./net.js";
import { act, app, busy, confirm, many, may, redraw } from "./state.js";
import { badge, button, choice, empty, fault, jobLink, loading, poolLink, searchBox, table } from "./parts.js";

export const plural = (n, one, more) => count(n) + " " + (n === 1 ? one : more || one + "s");

// Picked is which rows of a list a person has picked.
export class Picked {
  constructor() { this.ids = new Set(); }
  column(rows) {
    const all = rows.length > 0 && rows.every((r) => this.ids.has(r.id));
    const some = rows.some((r) => this.ids.has(r.id));
    return {
      name: "Pick", hide: true, look: "pick",
      head: h("input", { type: "checkbox", "aria-label": "Pick all of this page", checked: all, indeterminate: some && !all, onchange: () => { for (const r of rows) all ? this.ids.delete(r.id) : this.ids.add(r.id); redraw(); } }),
      cell: (r) => h("input", { type: "checkbox", "aria-label": "Pick " + r.id, checked: this.ids.has(r.id), onchange: () => { this.ids.has(r.id) ? this.ids.delete(r.id) : this.ids.add(r.id); redraw(); } }),
    };
  }
  // bar shows how many are picked, and what can be done with them.
  bar(actions) {
    if (!this.ids.size) return null;
    return h("div", { class: "picked", role: "region", "aria-label": "Picked jobs" }, h("b", null, plural(this.ids.size, "job") + " picked"), actions,
      h("button", { type: "button", class: "button", onclick: () => { this.ids.clear(); redraw(); } }, "Pick none"));
  }
}

// Pages is a list that is read a page at a time.
export class Pages {
  constructor(load) {
    this.load = load;
    this.before = []; // where the pages before began
    this.at = "";
    this.next = "";
    this.due = 0;
  }
  async read(force) {
    if (!force && (this.before.length || Date.now() < this.due)) return; // only the first page renews itself
    this.due = Date.now() + 2500;
    const mine = (this.turn = (this.turn || 0) + 1);
    try {
      const page = await this.load(this.at);
      if (mine !== this.turn) return;
      this.rows = page.jobs || page.batches;
      this.next = page.next || "";
      this.error = null;
    } catch (e) {
      if (mine !== this.turn) return;
      this.error = e;
    }
    redraw();
  }
  reset() {
    this.before = [];
    this.at = "";
    this.rows = null;
    return this.read(true);
  }
  bar() {
    if (!this.before.length && !this.next) return null;
    const go = (f) => () => { f(); this.read(true).then(() => window.scrollTo(0, 0)); };
    return h("nav", { class: "pages", "aria-label": "Pages" },
      h("button", { type: "button", class: "button", disabled: !this.before.length, onclick: go(() => { this.at = this.before.pop(); }) }, "Newer"),
      h("span", { class: "quiet" }, "page " + (this.before.length + 1)),
      h("button", { type: "button", class: "button", disabled: !this.next, onclick: go(() => { this.before.push(this.at); this.at = this.next; }) }, "Older"));
  }
}

export const states = ["queued", "running", "scheduled", "retrying", "done", "canceled"];

const said = (j) => {
  if (j.error) return h("span", { class: j.state === "done" ? "quiet clip" : "bad clip", title: j.error }, j.error);
  if (j.state === "running" && j.progress) return h("span", { class: "clip" }, Math.round(j.progress * 100) + "% " + (j.note || ""));
  if ((j.state === "scheduled" || j.state === "retrying") && j.at) return h("span", { class: "quiet" }, relative(j.at));
  return null;
};

export const columns = {
  id: { name: "Job", cell: (j) => h("strong", null, jobLink(j.id)) },
  task: { name: "Task", cell: (j) => h("span", { class: "clip", title: j.task }, j.task || "–") },
  pool: { name: "Pool", cell: (j) => poolLink(j.pool) },
  state: { name: "State", cell: (j) => badge(j.state) },
  attempts: { name: "Attempts", look: "number", cell: (j) => j.attempts || "–" },
  enqueued: { name: "Handed in", look: "number", cell: (j) => when(j.enqueued) },
  ran: { name: "Ran", look: "number", cell: (j) => (j.ran ? span(j.ran) : "–") },
  group: { name: "Group", cell: (j) => (j.group ? h("span", { class: "clip", title: j.group }, j.group) : "–") },
  says: { name: "Says", look: "wide", cell: said },
};

export function jobs(params) {
  const picked = new Picked();
  const filter = { state: params.state || "", pool: params.pool || "", task: params.task || "", search: params.search || "", group: params.group || "", schedule: params.schedule || "", batch: params.batch || "" };
  const pages = new Pages((after) => get("/v1/jobs" + query({ ...filter, limit: 50, order: "newest", after })));
  const go = (more) => { location.hash = "#/jobs" + query({ ...filter, ...more }); };

  async function cancel() {
    const ids = [...picked.ids];
    if (!(await confirm({ title: "Cancel " + plural(ids.length, "job") + "?", text: "Those that wait never start; those that run are asked to end. This cannot be undone.", verb: "Cancel " + plural(ids.length, "job"), danger: true, keep: "Keep" }))) return;
    act("cancel", (n) => plural(n, "job") + " canceled", async () => {
      const n = await many("/v1/jobs/cancel", { ids }, "canceled");
      picked.ids.clear();
      pages.read(true);
      return n;
    });
  }

  async function retry() {
    const ids = [...picked.ids];
    if (!(await confirm({ title: "Try " + plural(ids.length, "job") + " again?", text: "Each dead one is enqueued again as a new job. Others are left as they are.", verb: "Retry " + plural(ids.length, "job") }))) return;
    act("retry", (n) => plural(n, "job") + " enqueued again", async () => {
      const n = await many("/v1/jobs/retry", { ids }, "enqueued again");
      picked.ids.clear();
      pages.read(true);
      return n;
    });
  }

  function view() {
    const rows = pages.rows;
    const others = ["task", "group", "schedule", "batch"].filter((k) => filter[k]);
    return [
      h("h1", null, "Jobs"),
      h("div", { class: "chips", role: "group", "aria-label": "State" }, ["", ...states].map((s) => h("button", { type: "button", key: s || "all", class: "chip", "aria-pressed": filter.state === s ? "true" : "false", onclick: () => go({ state: s }) }, s || "all")),
        h("a", { class: "chip", href: "#/dead" + query({ pool: filter.pool }) }, "dead")),
      h("div", { class: "filters" },
        choice("Pool", filter.pool, [["", "all pools"], ...(app.overview?.pools || []).map((p) => [p.name, p.name])], (v) => go({ pool: v })),
        searchBox(filter.search, "Search id, task, key, group, error", (v) => { if (v !== filter.search) go({ search: v }); }),
        others.map((k) => h("button", { type: "button", key: k, class: "chip", title: "Take this filter away", onclick: () => go({ [k]: "" }) }, k + ": " + filter[k] + " ×"))),
      picked.bar([button("Retry", "submit", retry, { busy: busy("retry"), key: "r" }), button("Cancel jobs", "submit", cancel, { danger: true, busy: busy("cancel"), key: "c" })]),
      pages.error ? fault(pages.error, () => pages.read(true)) : null,
      rows ? (rows.length ? table("Jobs", [may("submit") ? picked.column(rows) : null, columns.id, columns.task, filter.pool ? null : columns.pool, filter.state ? null : columns.state, columns.attempts, columns.enqueued, columns.ran, rows.some((r) => r.group) ? columns.group : null, columns.says], rows, (j) => j.id)
        : empty(pages.next ? "None on this page; there is more to look through." : filter.search || filter.state || others.length || filter.pool ? "No job fits." : "There are no jobs.",
          pages.next ? null : h("p", null, filter.search || others.length ? h("a", { href: "#/jobs" }, "Show all jobs") : ["Hand one in: ", h("code", null, "bullpen submit POOL 'payload'")]))) : pages.error ? null : loading(),
      pages.bar(),
    ];
  }
  const renew = () => { if (!picked.ids.size && !app.ask) pages.read(); };
  return { title: "Jobs", view, live: renew, start: () => pages.read(true), key: params };
}
