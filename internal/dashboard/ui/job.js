// One job: what became of it, attempt by attempt, and what it says as it runs.
import { h, bytes, clockOf, count, exactOf, span, when } from "./dom.js";
import { follow, get, path, peek, query, save, send } from "./net.js";
import { act, busy, fail, Feed, redraw, sure } from "./state.js";
import { badge, bar, button, chip, crumbs, facts, jobLink, link, loading, poolLink, quiet, section, shown, to } from "./parts.js";

const mostLines = 2000;
const preview = 64 << 10;
const ended = (s) => s === "done" || s === "dead" || s === "canceled";

// asText is bytes as text, or null for what is no text.
function asText(b, cut) {
	try {
		const text = new TextDecoder("utf-8", { fatal: true }).decode(cut ? b.subarray(0, b.length - 4) : b, { stream: cut });
		return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
	} catch {
		return null;
	}
}

function asJSON(text) {
	if (!/^\s*[[{]/.test(text)) return null;
	try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return null; }
}

function asHex(b) {
	const lines = [];
	for (let i = 0; i < b.length && i < 4096; i += 16) {
		const row = [...b.subarray(i, i + 16)];
		lines.push(i.toString(16).padStart(6, "0") + "  " + row.map((v) => v.toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " + row.map((v) => (v > 31 && v < 127 ? String.fromCharCode(v) : ".")).join(""));
	}
	return lines.join("\n");
}

// Content shows the bytes of a payload or a result.
class Content {
	constructor(where, name) {
		this.where = where;
		this.name = name;
	}
	async load() {
		if (this.wanted) return;
		this.wanted = true;
		redraw();
		try {
			const got = await peek(this.where, preview);
			this.got = got;
			const text = asText(got.bytes, got.cut);
			const json = text !== null && !got.cut ? asJSON(text) : null;
			this.views = { JSON: json, text, hex: asHex(got.bytes) };
			this.as = json !== null ? "JSON" : text !== null ? "text" : "hex";
		} catch (e) {
			this.error = e;
		}
		redraw();
	}
	view() {
		if (this.error) return h("p.quiet", null, this.error.status === 404 || this.error.status === 410 ? "It is no longer kept." : this.error.message);
		if (!this.got) return loading();
		const g = this.got;
		if (!g.bytes.length) return h("p.quiet", null, "It is empty.");
		const size = g.size >= 0 ? bytes(g.size) : "more than " + bytes(preview);
		return [
			h("div.actions", null,
				h("div.chips", { role: "group", "aria-label": "How to show the " + this.name }, Object.keys(this.views).filter((k) => this.views[k] !== null).map((k) => chip(k, this.as === k, () => { this.as = k; redraw(); }))),
				quiet(size + (g.cut ? ", of which the beginning is shown" : "") + (this.as === "hex" && g.bytes.length > 4096 ? ", the first 4 KiB" : "")),
				button("Download", "read", () => save(this.where, this.name + ".bin").catch(fail))),
			h("pre.content", { tabindex: 0, "aria-label": this.name }, this.views[this.as]),
		];
	}
}

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

	const cancel = () => sure({ title: "Cancel this job?", text: info.state === "running" ? "It is asked to end, and its worker is ended where it does not." : "It never starts.", verb: "Cancel job", danger: true },
		"cancel" + id, "the job is canceled", async () => { info = { ...info, ...(await send("POST", where + "/cancel")) }; });
	const retry = () => act("retry" + id, "enqueued again as a new job", async () => {
		const ref = await send("POST", where + "/retry");
		location.hash = "#" + to("jobs", ref.id);
	});
	const drop = () => sure({ title: "Drop this dead letter?", text: "The job, its payload and its evidence are removed.", verb: "Drop", danger: true },
		"drop" + id, "the dead letter is dropped", async () => {
			await send("DELETE", path("v1", "dead", id));
			location.hash = "#/dead";
		});

	const point = (key, look, head, ...more) => h("li", { key, class: "attempt " + look }, h("div.head", null, head), more);
	const on = (a) => [a.worker ? "on " + a.worker : null, a.node ? "at " + a.node : null, a.exit_code === undefined ? null : "exit code " + a.exit_code, a.signal ? "signal " + a.signal : null, a.peak_memory ? "at most " + bytes(a.peak_memory) : null].filter(Boolean).join(" · ");

	function attempts() {
		const i = info, all = i.history || [], over = ended(i.state), missing = i.attempts - all.length - (i.state === "running" ? 1 : 0);
		return h("ol.timeline", null,
			point("in", "", [h("b", null, "Handed in"), when(i.enqueued)]),
			missing > 0 ? point("cut", "", quiet(missing === 1 ? "an attempt of which no more is kept" : missing + " attempts of which no more is kept")) : null,
			all.map((a) => point("a" + a.number, a.outcome === "ok" ? "ok" : "bad", [h("b", null, "Attempt " + a.number), badge(a.outcome), a.ran ? h("span", null, "ran " + span(a.ran)) : null, quiet(on(a)), when(a.ended)], a.error ? h("pre.error", null, a.error) : null)),
			over ? point("end", i.state === "done" ? "ok" : "bad", [h("b", null, "Ended"), badge(i.state), i.reason && i.reason !== i.state ? badge(i.reason, "bad") : null, i.ran && !all.length ? h("span", null, "ran " + span(i.ran)) : null, !all.length ? quiet(on(i)) : null, when(i.ended)], i.error && !all.length ? h("pre.error", null, i.error) : null)
				: i.state === "running" ? point("now", "go", [h("b", null, "Attempt " + i.attempts), badge("running"), quiet(on(i))])
				: point("now", "", [badge(i.state), i.at ? ["may start ", when(i.at)] : "waits for a worker"]));
	}

	function output() {
		if (!lines.length && ended(info.state)) return h("p.quiet", null, "It said nothing, or nothing of it is kept.");
		return [
			lost ? h("p.quiet", null, "The connection is lost; it comes back by itself.") : null,
			gap ? h("p.quiet", null, "Some earlier lines are missing here.") : null,
			h("div.log", { tabindex: 0, role: "log", "aria-label": "Output", onscroll: (e) => { stuck = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 40; }, made: (el) => { el._stick = () => { if (stuck) el.scrollTop = el.scrollHeight; }; new MutationObserver(el._stick).observe(el, { childList: true }); el._stick(); } },
				lines.length ? lines.map((l) => h("div", { class: "row" + (l.stream === "stderr" ? " err" : "") }, h("time", { title: l.time ? exactOf(l.time) : undefined }, l.time ? clockOf(Date.parse(l.time)) : ""), h("span", null, l.text))) : h("div.quiet", null, "Nothing yet.")),
		];
	}

	function view() {
		return info ? [show(), feed.error ? shown({ ...feed, data: true }, () => null) : null].flat() : [h("h1", null, "Job"), shown(feed, () => null, "There is no such job, or no more: what has ended is kept for a while only.")];
	}

	function show() {
		const i = info;
		const meta = Object.entries(i.meta || {});
		return [
			h("div.head", null,
				crumbs("/jobs", "Jobs", i.task || "job", " ", badge(i.state)),
				h("div.actions", null,
					i.state === "dead" ? [button("Retry", "submit", retry, { primary: true, busy: busy("retry" + id), key: "retry" }), button("Drop", "admin", drop, { danger: true, busy: busy("drop" + id), key: "drop" })]
						: ended(i.state) ? button("Run again", "submit", retry, { busy: busy("retry" + id), key: "retry" }) : null,
					ended(i.state) ? null : button("Cancel", "submit", cancel, { danger: true, busy: busy("cancel" + id), key: "cancel" }))),
			h("p.id", null, id),
			i.state === "running" ? h("div.progress", null, i.progress ? [bar(i.progress, 1, "Progress"), h("span", null, Math.round(i.progress * 100) + "% " + (i.note || ""))] : quiet(i.note || "It runs.")) : null,
			facts([
				["Pool", poolLink(i.pool)], ["Priority", i.priority && i.priority !== "normal" ? i.priority : ""], ["Key", i.key], ["Group", i.group ? link("/jobs" + query({ pool: i.pool, group: i.group }), i.group) : ""],
				["Handed in", when(i.enqueued)], ["Starts", i.at && !ended(i.state) ? when(i.at) : ""], ["Deadline", i.deadline ? when(i.deadline) : ""], ["Ended", i.ended ? when(i.ended) : ""],
				["Attempts", i.attempts ? count(i.attempts) : ""], ["Workers it killed", i.crashes ? count(i.crashes) : ""], ["Node", i.node], ["Worker", i.worker],
				["Waited", i.waited ? span(i.waited) : ""], ["Ran", i.ran ? span(i.ran) : ""], ["Peak memory", i.peak_memory ? bytes(i.peak_memory) : ""],
				["Comes from", jobLink(i.parent)], ["Next in its chain", jobLink(i.next)], ["Batch", i.batch ? link(to("batches", i.batch), i.batch, { class: "id" }) : ""], ["Schedule", i.schedule ? link(to("schedules", i.schedule), i.schedule) : ""],
				["Undone by", i.compensate], ["When it is dead", i.bury],
			]),
			section("What became of it", null, attempts()),
			i.failure?.stack || i.failure?.detail ? section("Failure", null, i.failure.type ? h("p", null, h("code", null, i.failure.type), " ", i.failure.message) : null, i.failure.detail ? h("p", null, i.failure.detail) : null, i.failure.stack ? h("pre.content", { tabindex: 0, "aria-label": "Stack" }, i.failure.stack) : null) : null,
			section("Output", null, output()),
			i.state === "done" ? section("Result", null, result.view()) : null,
			section("Payload", null, payload.view()),
			meta.length ? section("Meta", null, facts(meta.map(([k, v]) => [k, h("code", null, v)]))) : null,
		];
	}
	return { title: "Job", view, start, close };
}
