// Batches: how far they are, and what is in them.
import { h, count, share, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, app, busy, confirm, redraw } from "./state.js";
import { badge, bar, button, empty, facts, fault, jobLink, link, loading, section, short, table, to } from "./parts.js";
import { columns, Pages, plural } from "./jobs.js";

const done = (b) => b.state === "done" || b.state === "canceled";

const progress = (b) => h("span", { class: "progress" }, bar(b.ended || 0, b.total || 1, "Ended of all"), h("span", null, count(b.ended || 0) + " of " + (b.state === "open" ? "so far " : "") + count(b.total || 0)), b.failed ? h("span", { class: "bad" }, count(b.failed) + " failed") : null);

export function batches() {
  const pages = new Pages((after) => get("/v1/batches" + query({ limit: 50, after })));
  function view() {
    const rows = pages.rows;
    return [
      h("h1", null, "Batches"),
      pages.error ? (pages.error.nowhere ? empty("This daemon has no batches.") : fault(pages.error, () => pages.read(true))) : null,
      rows ? (rows.length ? table("Batches", [
        { name: "Batch", cell: (b) => h("strong", null, link(to("batches", b.id), b.key || short(b.id), { title: b.id })) },
        { name: "State", cell: (b) => badge(b.state, { open: "go", done: b.failed ? "warn" : "ok" }[b.state]) },
        { name: "Progress", look: "wide", cell: progress },
        { name: "Made", look: "number", cell: (b) => when(b.created) },
        { name: "Ended", look: "number", cell: (b) => when(b.ended_at) },
      ], rows, (b) => b.id) : empty("There are no batches.", h("p", { class: "quiet" }, "A batch is jobs that are counted together, with a job that follows when all have ended: ", h("code", null, "bullpen batch submit"), "."))) : pages.error ? null : loading(),
      pages.bar(),
    ];
  }
  return { title: "Batches", view, live: () => { if (!app.ask) pages.read(); }, start: () => pages.read(true) };
}

export function batch({ id }) {
  const where = path("v1", "batches", id);
  let b, error, due = 0;
  const pages = new Pages((after) => get(where + "/jobs" + query({ limit: 50, after })));
  async function load(force) {
    if (!force && (Date.now() < due || (b && done(b)))) return;
    due = Date.now() + 2000;
    try {
      b = await get(where);
      error = null;
    } catch (e) {
      error = e;
    }
    redraw();
  }
  async function cancel() {
    if (!(await confirm({ title: "Cancel this batch?", text: "Of its " + plural(b.total - (b.ended || 0), "job") + " that have not ended, those that wait never start and those that run are asked to end. This cannot be undone.", verb: "Cancel batch", danger: true }))) return;
    act("cancel" + id, "the batch is canceled", async () => { b = await send("POST", where + "/cancel"); pages.read(true); });
  }
  function view() {
    const head = h("h1", null, link("/batches", "Batches", { class: "quiet" }), " / ", b?.key || short(id), " ", b ? badge(b.state, { open: "go", done: b.failed ? "warn" : "ok" }[b.state]) : null);
    if (!b) return [head, error ? (error.status === 404 ? empty("There is no such batch, or no more.") : fault(error, () => load(true))) : loading()];
    return [
      h("div", { class: "head" }, head, done(b) ? null : h("div", { class: "actions" }, button("Cancel", "submit", cancel, { danger: true, busy: busy("cancel" + id), key: "cancel" }))),
      error ? fault(error, () => load(true)) : null,
      h("p", { class: "id" }, id),
      progress(b),
      facts([
        ["Well", count(b.ok || 0)], ["Failed", count(b.failed || 0) + (b.failed ? ", " + share(b.failed, b.ended) + " of those that ended" : "")], ["Canceled", b.canceled ? count(b.canceled) : ""],
        ["First failed", jobLink(b.first_failed)], ["Made", when(b.created)], ["Ended", b.ended_at ? when(b.ended_at) : ""],
        ["When all have ended", b.then ? [b.then.task || "a job", " in ", b.then.pool, " ", jobLink(b.then_id)] : ""], ["When one has failed", b.failed_job ? [b.failed_job.task || "a job", " in ", b.failed_job.pool, " ", jobLink(b.failed_id)] : ""],
        ...Object.entries(b.meta || {}).map(([k, v]) => [k, h("code", null, v)]),
      ]),
      section("Its jobs", null,
        pages.error ? fault(pages.error, () => pages.read(true)) : null,
        pages.rows ? (pages.rows.length ? table("Jobs", [{ name: "Number", look: "number", cell: (j) => j.index ?? 0 }, columns.id, columns.task, columns.pool, columns.state, columns.attempts, columns.ran, columns.says], pages.rows, (j) => j.id) : empty("There are none.")) : loading(),
        pages.bar()),
    ];
  }
  return { title: "Batch", view, live: () => { load(); if (b && !done(b) && !app.ask) pages.read(); }, start: () => { load(true); pages.read(true); } };
}
