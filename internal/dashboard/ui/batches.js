// Batches: how far they are, and what is in them.
import { h, at, count, share, when } from "./dom.js";
import { get, path, query, send } from "./net.js";
import { Feed, sure } from "./state.js";
import { badge, bar, button, code, col, crumbs, empty, facts, jobLink, link, num, quiet, section, short, shown, state, table, to } from "./parts.js";
import { columns, Pages, plural, some } from "./jobs.js";

const over = (b) => b.state === "done" || b.state === "canceled";
const settled = (b) => b?.ended_at && (!b.then || b.then_id);
const stateOf = (b) => badge(b.state, { open: "go", done: b.failed ? "warn" : "ok" }[b.state]);
const progress = (b) => h("span.progress", bar(b.ended || 0, b.total || 1, "Ended jobs"), h("span", count(b.ended || 0) + " of " + count(b.total || 0) + (b.state === "open" ? " so far" : "")), b.failed ? h("span.bad", count(b.failed) + " failed") : null);

export function batches() {
	const pages = new Pages((after) => get("/v1/batches" + query({ limit: 50, order: "newest", after })));
	const view = () => [
		h("h1", "Batches"),
		shown(pages, ({ batches }) => (batches.length ? table("Batches", [
			col("Batch", (b) => [h("strong", link(to("batches", b.id), b.key || short(b.id), { title: b.id })), b.key ? null : quiet(" without a key")]),
			state(stateOf),
			col("Progress", progress, "wide"),
			num("Created", (b) => when(b.created)),
			num("Ended", (b) => when(b.ended_at)),
		], batches, (b) => b.id) : empty("There are no batches.", h("p", "A batch counts jobs together, and can run another job when all have ended: ", code("bullpen batch submit"), "."))), "This daemon has no batches."),
		pages.bar(),
	];
	return { title: "Batches", view, tick: () => { pages.stale = true; pages.renew(); } };
}

export function batch({ id }) {
	const where = path("v1", "batches", id);
	const feed = new Feed(() => get(where), 2000);
	let last = false; // whether its jobs were read after its end
	const pages = new Pages((after) => get(where + "/jobs" + query({ limit: 50, after })));
	const cancel = () => sure({ title: "Cancel this batch?", text: "It has " + plural(feed.data.total - (feed.data.ended || 0), "job") + " that have not ended: waiting jobs never start, running jobs are asked to end.", verb: "Cancel batch", danger: true },
		"cancel" + id, "the batch was canceled", async () => { feed.data = await send("POST", where + "/cancel"); pages.load(true); });
	const follower = (job, id) => (job ? [job.task || "a job", " in ", job.pool, " ", jobLink(id)] : "");
	const show = (b) => [
		h("p.id", id),
		progress(b),
		facts([
			["OK", count(b.ok || 0)], ["Failed", count(b.failed || 0) + (b.failed ? ", " + share(b.failed, b.ended) + " of those that ended" : "")], ["Canceled", b.canceled ? count(b.canceled) : ""],
			["First failed", jobLink(b.first_failed)], ["Created", at(b.created)], ["Ended", at(b.ended_at)],
			["When all ended", follower(b.then, b.then_id)], ["When one failed", follower(b.failed_job, b.failed_id)],
			...Object.entries(b.meta || {}).map(([k, v]) => [k, code(v)]),
		]),
		section("Jobs", null,
			shown(pages, ({ jobs }) => (jobs.length ? table("Jobs", [num("Number", (j) => j.index ?? 0), columns.id, columns.task, some(jobs, "key"), columns.pool, columns.state, columns.attempts, columns.ran, some(jobs, "error")], jobs, (j) => j.id) : empty("It has no jobs yet."))),
			pages.bar("Previous", "Next")),
	];
	const view = () => {
		const b = feed.data;
		return [
			h("div.head", crumbs("/batches", "Batches", b?.key || short(id), " ", b ? stateOf(b) : null),
				!b || over(b) ? null : h("div.actions", button("Cancel", "submit", cancel, { danger: true, does: "cancel" + id }))),
			shown(feed, show, "This batch does not exist, or is no longer kept."),
		];
	};
	function tick() {
		if (!settled(feed.data)) {
			feed.load();
			pages.renew();
		} else if (!last) {
			last = true;
			pages.load(true);
		}
	}
	return { title: "Batch", view, tick, live: () => { pages.stale = true; } };
}
