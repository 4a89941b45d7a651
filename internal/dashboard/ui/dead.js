// Dead jobs and quarantine: by cause, and one by one.
import { h, count, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { many, may, redraw, sure, tellFailed } from "./state.js";
import { badge, button, chip, choice, col, empty, jobLink, num, poolChoice, poolLink, quiet, searchBox, shown, table, taken } from "./parts.js";
import { columns, Pages, Picked, plural, some } from "./jobs.js";

const reasons = ["exhausted", "final", "quarantined", "expired", "refused", "corrupt"];

export function dead(params) {
	const filter = {};
	for (const k of ["pool", "reason", "search", "cause"]) filter[k] = params[k] || "";
	const byCause = !filter.cause && params.by !== "job";
	const picked = new Picked();
	const list = byCause
		? new Pages(() => get("/v1/dead/causes" + query({ ...filter, cause: "" })))
		: new Pages((after) => get("/v1/dead" + query({ ...filter, limit: 50, order: "newest", after })));
	const go = (change) => { location.hash = "#/dead" + query({ ...filter, by: params.by, ...change }); };
	const filtered = filter.pool || filter.reason || filter.search || filter.cause;

	const act = (verb, text, danger, what, done, work) => sure({ title: verb + " " + what + "?", text, verb: verb + " " + what, danger }, "dead", (n) => plural(n, "job") + " " + done, async () => {
		try {
			return await work();
		} finally {
			list.load(true);
		}
	});
	const again = "Each job is enqueued again as a new job, and removed here.";
	const gone = "The jobs, their payloads and their evidence are removed.";

	function all(more) {
		const body = {};
		for (const [k, v] of Object.entries({ ...filter, ...more })) if (v) body[k] = v;
		return Object.keys(body).length ? body : { all: true };
	}
	const retryAll = (what, more) => act("Retry", again, false, what, "enqueued again", () => many("/v1/dead/retry", all(more), "enqueued again"));
	const dropAll = (what, more) => act("Remove", gone, true, what, "removed", () => many("/v1/dead/remove", all(more), "removed"));

	const retryPicked = () => act("Retry", again, false, plural(picked.size, "job"), "enqueued again", async () => {
		const n = await many("/v1/jobs/retry", { ids: [...picked] }, "enqueued again");
		picked.clear();
		return n;
	});

	// drop drops all that are picked, one after the other. What somebody else has tried
	// again or dropped meanwhile is no reason to stop.
	async function drop() {
		const failed = [];
		let n = 0;
		for (const id of [...picked]) {
			try {
				await send("DELETE", path("v1", "dead", id));
				n++;
			} catch (e) {
				failed.push({ id, error: e.message });
				if (e.status !== 404) break;
			}
			picked.delete(id);
		}
		tellFailed(failed, "removed");
		return n;
	}
	const dropPicked = () => act("Remove", gone, true, plural(picked.size, "job"), "removed", drop);

	const reasonOf = (j) => [badge(j.reason, "bad"), j.outcome && j.outcome !== j.reason ? badge(j.outcome, "bad") : null];
	const nothing = () => empty(filtered ? "No dead job matches the filters." : "There are no dead jobs.", filtered ? h("p", h("a", { href: "#/dead" }, "Show all")) : h("p", "Jobs that have failed for good are kept here, with their evidence, until you retry or remove them."));

	const causes = ({ causes, more }) => (causes.length ? [
		h("div.causes", causes.map((c) => h("article.cause", { key: c.cause },
			h("div.head", h("b.big", count(c.count)), reasonOf(c), poolLink(c.pool), h("span.clip", c.task), quiet("first ", when(c.first), ", last ", when(c.last), c.sample ? [", for example ", jobLink(c.sample)] : null),
				h("div.actions",
					h("a.button", { href: "#/dead" + query({ pool: filter.pool, cause: c.cause }), "aria-label": "Show the " + plural(c.count, "job") }, "Show"),
					button("Retry all", "admin", () => retryAll(plural(c.count, "job"), { cause: c.cause }), { does: "dead", key: "r" }),
					button("Remove all", "admin", () => dropAll(plural(c.count, "job"), { cause: c.cause }), { danger: true, does: "dead", key: "d" }))),
			h("pre.error", c.error || "No error text.")))),
		more ? h("p.quiet", "There are more dead jobs than could be counted at once: narrow them down by pool, reason or search.") : null,
	] : nothing());

	const letters = ({ jobs, next }) => (jobs.length || next ? [
		picked.bar(button("Retry", "submit", retryPicked, { does: "dead", key: "r" }), button("Remove", "admin", dropPicked, { danger: true, does: "dead", key: "d" })),
		table("Dead jobs", [may("submit") ? picked.column(jobs) : null, columns.id, columns.task, some(jobs, "key"), filter.pool ? null : columns.pool, col("Reason", reasonOf, "state"), columns.attempts, num("Ended", (j) => when(j.ended)), some(jobs, "group", "error")], jobs, (j) => j.id),
		list.bar(),
	] : nothing());

	function view() {
		const what = filter.cause ? "all of this cause" : filtered ? "all that match" : "all of them";
		return [
			h("div.head", h("h1", "Dead jobs"), byCause || !list.data?.jobs.length ? null : h("div.actions",
				button("Retry all", "admin", () => retryAll(what), { does: "dead", key: "ra" }),
				button("Remove all", "admin", () => dropAll(what), { danger: true, does: "dead", key: "da" }))),
			h("div.chips", { role: "group", "aria-label": "Show" }, chip("by cause", byCause, () => go({ by: "", cause: "" })), chip("job by job", !byCause, () => go({ by: "job", cause: "" })),
				filter.cause ? taken("cause " + filter.cause, () => go({ cause: "" })) : null),
			h("div.filters",
				poolChoice(filter.pool, (v) => go({ pool: v })),
				choice("Reason", filter.reason, [["", "all reasons"], ...reasons.map((r) => [r, r])], (v) => go({ reason: v })),
				searchBox(filter.search, (v) => { if (v !== filter.search) go({ search: v }); })),
			shown(list, byCause ? causes : letters),
		];
	}
	return { title: "Dead jobs", view, live: () => { list.stale = true; }, tick: () => { if (!picked.size) list.renew(); }, escape: () => { picked.clear(); redraw(); } };
}
