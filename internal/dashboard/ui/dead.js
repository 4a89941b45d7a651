// Dead letters and quarantine: by cause, and one by one.
import { h, count, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { act, app, busy, confirm, many, may, redraw } from "./state.js";
import { badge, button, choice, empty, fault, jobLink, loading, poolLink, searchBox, section, table } from "./parts.js";
import { columns, Pages, Picked, plural } from "./jobs.js";

const reasons = ["exhausted", "final", "quarantined", "expired", "refused", "corrupt", "vanished"];

export function dead(params) {
  const filter = { pool: params.pool || "", reason: params.reason || "", search: params.search || "", cause: params.cause || "" };
  const byCause = () => !filter.cause && params.by !== "job" && !app.missing.has("causes");
  const picked = new Picked();
  const pages = new Pages((after) => get("/v1/dead" + query({ ...filter, limit: 50, after })));
  let causes, more, error, next = 0;
  const go = (change) => { location.hash = "#/dead" + query({ ...filter, by: params.by, ...change }); };

  async function load(force) {
    if (!byCause()) return pages.read(force);
    if (!force && Date.now() < next) return;
    next = Date.now() + 3000;
    try {
      const c = await get("/v1/dead/causes" + query({ pool: filter.pool, reason: filter.reason, search: filter.search }));
      causes = c.causes;
      more = c.more;
      error = null;
    } catch (e) {
      if (e.nowhere || e.status === 400) { app.missing.add("causes"); return load(true); }
      error = e;
    }
    redraw();
  }

  const body = (more) => {
    const b = {};
    for (const [k, v] of Object.entries({ pool: filter.pool, reason: filter.reason, search: filter.search, cause: filter.cause, ...more })) if (v) b[k] = v;
    return Object.keys(b).length ? b : { all: true };
  };

  async function retryAll(which, n) {
    if (!(await confirm({ title: "Try " + n + " again?", text: "Each is enqueued again as a new job, and the dead letter goes.", verb: "Retry all" }))) return;
    act("dead", (done) => plural(done, "job") + " enqueued again", async () => {
      const done = await many("/v1/dead/retry", body(which), "enqueued again");
      picked.ids.clear();
      load(true);
      return done;
    });
  }

  async function dropAll(which, n) {
    if (!(await confirm({ title: "Drop " + n + "?", text: "The jobs, their payloads and their evidence are removed. This cannot be undone.", verb: "Drop " + n, danger: true }))) return;
    act("dead", (done) => plural(done, "dead letter") + " dropped", async () => {
      const done = await many("/v1/dead/remove", body(which), "dropped");
      picked.ids.clear();
      load(true);
      return done;
    });
  }

  // each does something to all that are picked, one after the other.
  async function each(verb, done, one) {
    let count = 0, first = null;
    for (const id of picked.ids) {
      try {
        await one(id);
        count++;
        picked.ids.delete(id);
      } catch (e) {
        first ||= e;
      }
    }
    load(true);
    if (first) throw first;
    return count;
  }

  async function retryPicked() {
    if (!(await confirm({ title: "Try " + plural(picked.ids.size, "job") + " again?", text: "Each is enqueued again as a new job, and the dead letter goes.", verb: "Retry " + plural(picked.ids.size, "job") }))) return;
    act("dead", (n) => plural(n, "job") + " enqueued again", () => each("retry", "", (id) => send("POST", path("v1", "dead", id, "retry"))));
  }

  async function dropPicked() {
    if (!(await confirm({ title: "Drop " + plural(picked.ids.size, "dead letter") + "?", text: "The jobs, their payloads and their evidence are removed. This cannot be undone.", verb: "Drop", danger: true }))) return;
    act("dead", (n) => plural(n, "dead letter") + " dropped", () => each("drop", "", (id) => send("DELETE", path("v1", "dead", id))));
  }

  function causesView() {
    if (error) return fault(error, () => load(true));
    if (!causes) return loading();
    if (!causes.length) return nothing();
    return [
      h("div", { class: "causes" }, causes.map((c) => h("article", { class: "cause", key: c.cause },
        h("div", { class: "head" }, h("b", { class: "big" }, count(c.count)), badge(c.reason, "bad"), c.outcome && c.outcome !== c.reason ? badge(c.outcome, "bad") : null, poolLink(c.pool), h("span", { class: "clip" }, c.task),
          h("div", { class: "actions" },
            h("a", { class: "button", href: "#/dead" + query({ pool: filter.pool, cause: c.cause }), "aria-label": "Show the " + plural(c.count, "job") }, "Show"),
            button("Retry all", "admin", () => retryAll({ cause: c.cause }, plural(c.count, "job")), { busy: busy("dead"), key: "r" }),
            button("Drop all", "admin", () => dropAll({ cause: c.cause }, plural(c.count, "dead letter")), { danger: true, busy: busy("dead"), key: "d" }))),
        h("pre", { class: "error" }, c.error || "It did not say why."),
        h("p", { class: "quiet" }, "first ", when(c.first), ", last ", when(c.last), c.sample ? [", such as ", jobLink(c.sample)] : null)))),
      more ? h("p", { class: "quiet" }, "There are more than could be counted at once: narrow it down by pool, reason or search.") : null,
    ];
  }

  const nothing = () => empty(filter.pool || filter.reason || filter.search || filter.cause ? "No dead letter fits." : "There are no dead letters.", filter.pool || filter.reason || filter.search || filter.cause ? h("p", null, h("a", { href: "#/dead" }, "Show all")) : h("p", { class: "quiet" }, "Jobs that failed for good would wait here, with their evidence, to be tried again or dropped."));

  function list() {
    const rows = pages.rows;
    if (pages.error) return fault(pages.error, () => load(true));
    if (!rows) return loading();
    if (!rows.length && !pages.next) return nothing();
    return [
      picked.bar([button("Retry", "submit", retryPicked, { busy: busy("dead"), key: "r" }), button("Drop", "admin", dropPicked, { danger: true, busy: busy("dead"), key: "d" })]),
      table("Dead letters", [may("submit") ? picked.column(rows) : null, columns.id, columns.task, filter.pool ? null : columns.pool,
        { name: "Reason", cell: (j) => [badge(j.reason, "bad"), j.outcome && j.outcome !== j.reason ? badge(j.outcome, "bad") : null] }, columns.attempts,
        { name: "Died", look: "number", cell: (j) => when(j.ended) }, columns.says], rows, (j) => j.id),
      pages.bar(),
    ];
  }

  function view() {
    return [
      h("div", { class: "head" }, h("h1", null, "Dead letters"), h("div", { class: "actions" },
        byCause() || (!filter.cause && !pages.rows?.length) ? null : [
          button("Retry all of these", "admin", () => retryAll({}, filter.cause ? "all of this cause" : "all that fit"), { busy: busy("dead"), key: "ra" }),
          button("Drop all of these", "admin", () => dropAll({}, filter.cause ? "all of this cause" : "all that fit"), { danger: true, busy: busy("dead"), key: "da" })])),
      app.missing.has("causes") ? null : h("div", { class: "chips", role: "group", "aria-label": "Show" },
        h("button", { type: "button", class: "chip", "aria-pressed": byCause() ? "true" : "false", onclick: () => go({ by: "", cause: "" }) }, "by cause"),
        h("button", { type: "button", class: "chip", "aria-pressed": byCause() ? "false" : "true", onclick: () => go({ by: "job", cause: "" }) }, "job by job"),
        filter.cause ? h("button", { type: "button", class: "chip", title: "Take this filter away", onclick: () => go({ cause: "" }) }, "cause " + filter.cause + " ×") : null),
      h("div", { class: "filters" },
        choice("Pool", filter.pool, [["", "all pools"], ...(app.overview?.pools || []).map((p) => [p.name, p.name])], (v) => go({ pool: v })),
        choice("Reason", filter.reason, [["", "all reasons"], ...reasons.map((r) => [r, r])], (v) => go({ reason: v })),
        app.missing.has("causes") ? null : searchBox(filter.search, "Search id, task, key, group, error", (v) => { if (v !== filter.search) go({ search: v }); })),
      byCause() ? causesView() : list(),
    ];
  }
  const renew = () => { if (!picked.ids.size && !app.ask) load(); };
  return { title: "Dead letters", view, live: renew, start: () => load(true) };
}
