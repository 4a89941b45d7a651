// One job: what became of it, attempt by attempt, and what it says as it runs.
import { h, at, bytes, clockOf, count, exactOf, span, zone } from "./dom.js";
import { follow, get, path, query, send } from "./net.js";
import { act, Feed, redraw, sure } from "./state.js";
import { badge, bar, batchName, button, code, crumbs, facts, jobLink, link, poolLink, quiet, section, shown, to } from "./parts.js";
import { Content } from "./content.js";

const mostLines = 2000;
const ended = (s) => s === "done" || s === "dead" || s === "canceled";

export function job({ id }) {
	const where = path("v1", "jobs", id);
	const feed = new Feed(() => get(where));
	let info, stop = null, later = 0, closed = false, lost = false, gap = false, stuck = true;
	const lines = [];
	const payload = new Content(where + "/payload", "payload");
	const result = new Content(where + "/result", "result");

	async function load() {
		await feed.load(true);
		if (!feed.error) info = feed.data;
	}

	async function start() {
		await load();
		if (closed || feed.error) return;
		stop?.();
		lines.length = 0;
		gap = false;
		if (ended(info.state)) lines.push(...(info.lines || []));
		else listen();
		payload.load();
		if (info.state === "done") result.load();
		redraw();
	}

	function listen() {
		const soon = () => { clearTimeout(later); later = setTimeout(load, 200); };
		stop = follow(where + "/events", {
			open: () => { lost = false; redraw(); },
			lost: () => { lost = true; redraw(); },
			gap: () => { gap = true; redraw(); },
			refused: (e) => { feed.error = e; redraw(); },
			event: (kind, data) => {
				if (kind === "log") {
					lines.push(data);
					if (lines.length > mostLines) { lines.splice(0, lines.length - mostLines); gap = true; }
				} else if (kind === "progress") {
					info = { ...info, progress: data.fraction, note: data.note };
				} else if (kind === "state") {
					info = { ...info, state: data.state, attempts: data.attempt };
					soon();
				} else if (kind === "end") {
					info = { ...info, ...data };
					if (info.state === "done") result.load();
					stop?.();
					soon();
				}
				redraw();
			},
		});
	}

	function close() {
		closed = true;
		clearTimeout(later);
		stop?.();
	}

	feed.again = start;

	const cancel = () => sure({ title: "Cancel this job?", text: info.state === "running" ? "The job is asked to end; if it does not, its worker is killed." : "The job will never start.", verb: "Cancel job", danger: true },
		"cancel" + id, "the job was canceled", async () => { info = { ...info, ...(await send("POST", where + "/cancel")) }; });
	const retry = () => act("retry" + id, "enqueued again as a new job", async () => {
		const ref = await send("POST", where + "/retry");
		location.hash = "#" + to("jobs", ref.id);
	});
	const drop = () => sure({ title: "Remove this dead job?", text: "The job, its payload and its evidence are removed.", verb: "Remove", danger: true },
		"drop" + id, "the dead job was removed", async () => {
			await send("DELETE", path("v1", "dead", id));
			location.hash = "#/dead";
		});

	const point = (key, look, head, ...more) => h("li", { key, class: "attempt " + look }, h("div.head", head), more);
	const on = (a) => [a.worker ? "on " + a.worker : null, a.node ? "node " + a.node : null, a.exit_code === undefined ? null : "exit code " + a.exit_code, a.signal ? "signal " + a.signal : null, a.peak_memory ? bytes(a.peak_memory) + " of memory" : null].filter(Boolean).join(" · ");

	function attempts() {
		const i = info, all = i.history || [], over = ended(i.state), told = all.at(-1)?.number === i.attempts; // the last one, by itself
		const missing = i.attempts - all.length - (i.state === "running" || (over && !told) ? 1 : 0);
		return h("ol.timeline",
			point("in", "", [h("b", "Enqueued"), at(i.enqueued)]),
			missing > 0 ? point("cut", "", quiet(missing === 1 ? "1 attempt is no longer kept" : missing + " attempts are no longer kept")) : null,
			all.map((a) => point("a" + a.number, a.outcome === "ok" ? "ok" : "bad", [h("b", "Attempt " + a.number), badge(a.outcome), a.ran ? h("span", "ran " + span(a.ran)) : null, quiet(on(a)), at(a.ended)], a.error ? h("pre.error", a.error) : null)),
			over ? point("end", i.state === "done" ? "ok" : "bad", [h("b", "Ended"), badge(i.state), i.reason && i.reason !== i.state ? badge(i.reason, "bad") : null, i.ran && !told ? h("span", "ran " + span(i.ran)) : null, told ? null : quiet(on(i)), at(i.ended)], i.error && !told ? h("pre.error", i.error) : null)
				: i.state === "running" ? point("now", "go", [h("b", "Attempt " + i.attempts), badge("running"), quiet(on(i))])
				: point("now", "", [badge(i.state), i.at ? ["starts ", at(i.at)] : "waiting for a worker"]));
	}

	function output() {
		if (!lines.length && ended(info.state)) return h("p.quiet", "No output, or it is no longer kept.");
		return [
			lost ? h("p.quiet", "The connection is lost. Reconnecting …") : null,
			gap ? h("p.quiet", "Earlier lines are missing.") : null,
			h("div.log", { tabindex: 0, role: "log", "aria-label": "Output", onscroll: (e) => { stuck = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 40; }, made: (el) => { el._stick = () => { if (stuck) el.scrollTop = el.scrollHeight; }; new MutationObserver(el._stick).observe(el, { childList: true }); el._stick(); } },
				lines.length ? lines.map((l) => h("div", { class: "row" + (l.stream === "stderr" ? " err" : "") }, h("time", { title: l.time ? exactOf(l.time) : undefined }, l.time ? clockOf(Date.parse(l.time)) : ""), h("span", l.text))) : h("div.quiet", "No output yet.")),
		];
	}

	function view() {
		return info ? [show(), feed.error ? shown({ ...feed, data: true }, () => null) : null].flat() : [h("h1", "Job"), shown(feed, () => null, "This job does not exist, or is no longer kept.")];
	}

	function show() {
		const i = info;
		const meta = Object.entries(i.meta || {});
		return [
			h("div.head",
				crumbs("/jobs", "Jobs", i.task || "job", " ", badge(i.state)),
				h("div.actions",
					// What has ended can be enqueued again while its payload is there.
					i.state === "dead" || (ended(i.state) && payload.got) ? button(i.state === "dead" ? "Retry" : "Run again", "submit", retry, { primary: i.state === "dead", does: "retry" + id }) : null,
					i.state === "dead" ? button("Remove", "admin", drop, { danger: true, does: "drop" + id }) : null,
					ended(i.state) ? null : button("Cancel", "submit", cancel, { danger: true, does: "cancel" + id }))),
			h("p.id", id),
			i.state === "running" ? h("div.progress", i.progress ? [bar(i.progress, 1, "Progress"), h("span", Math.round(i.progress * 100) + "% " + (i.note || ""))] : quiet(i.note || "No progress reported.")) : null,
			facts([
				["Pool", poolLink(i.pool)], ["Priority", i.priority && i.priority !== "normal" ? i.priority : ""], ["Key", i.key], ["Group", i.group ? link("/jobs" + query({ pool: i.pool, group: i.group }), i.group) : ""],
				["Deadline", at(i.deadline)], ["Attempts", count(i.attempts)], ["Worker crashes", count(i.crashes)], ["Wait time", span(i.waited)], ["Run time", span(i.ran)],
				["Parent", jobLink(i.parent)], ["Next in chain", jobLink(i.next)], ["Batch", i.batch ? link(to("batches", i.batch), batchName(i.batch), { title: i.batch }) : ""], ["Schedule", i.schedule ? link(to("schedules", i.schedule), i.schedule) : ""],
				["Compensation", i.compensate], ["Burial", i.bury],
			]),
			section("Timeline", null, attempts()),
			i.failure?.stack || i.failure?.detail ? section("Failure", null, i.failure.type ? h("p", code(i.failure.type), " ", i.failure.message) : null, i.failure.detail ? h("p", i.failure.detail) : null, i.failure.stack ? h("pre.content", { tabindex: 0, "aria-label": "Stack" }, i.failure.stack) : null) : null,
			section(["Output ", lines.length ? quiet("times in " + zone) : null], null, output()),
			i.state === "done" ? section("Result", null, result.view()) : null,
			section("Payload", null, payload.view()),
			meta.length ? section("Meta", null, facts(meta.map(([k, v]) => [k, code(v)]))) : null,
		];
	}
	return { title: "Job", view, start, close };
}
