// Requests to the daemon that this page came from, and to nobody else.

// The token is kept for this tab only, until it is closed, and never stands in an address.
const tokenKey = "bullpen-token";
let token = sessionStorage.getItem(tokenKey) || "";

export function setToken(t) {
	token = t;
	if (t) sessionStorage.setItem(tokenKey, t);
	else sessionStorage.removeItem(tokenKey);
}

export const hasToken = () => token !== "";

// Problem is what the daemon says of a request that it did not do.
export class Problem extends Error {
	constructor(status, body) {
		super(body.detail || body.title || "The daemon answered " + status + ".");
		this.status = status;
		this.cause = body.cause;
		this.faults = body.faults || [];
	}
}

let onUnauthorized = () => {};
export const whenUnauthorized = (f) => { onUnauthorized = f; };

// path joins parts of a path, each escaped. A part of dots alone would be a step.
export function path(...parts) {
	return parts.map((p) => "/" + (/^\.{0,2}$/.test(p) ? "%00" : encodeURIComponent(p))).join("");
}

// query makes a query of what is set.
export function query(values) {
	const q = new URLSearchParams();
	for (const k in values) if (values[k] !== undefined && values[k] !== "" && values[k] !== null) q.set(k, values[k]);
	const text = q.toString();
	return text ? "?" + text : "";
}

async function ask(method, where, options = {}) {
	let r;
	try {
		const headers = { Accept: "application/json", ...options.headers };
		if (token) headers.Authorization = "Bearer " + token;
		r = await fetch(where, { method, cache: "no-store", credentials: "omit", redirect: "error", ...options, headers });
	} catch (e) {
		if (options.signal?.aborted) throw e;
		throw new Problem(0, { detail: "The daemon cannot be reached.", cause: "unreachable" });
	}
	if (r.ok) return r;
	let body = {};
	try { body = await r.json(); } catch { /* it was not the daemon that answered */ }
	if (r.status === 401) onUnauthorized(body);
	throw new Problem(r.status, body);
}

export const get = async (where) => (await ask("GET", where)).json();

// send asks for a change; body is an object, or nothing.
export async function send(method, where, body) {
	const r = await ask(method, where, body && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
	const text = await r.text();
	return text ? JSON.parse(text) : null;
}

// peek reads the beginning of an answer, at most so many bytes.
export async function peek(where, most) {
	const r = await ask("GET", where, { headers: { Accept: "*/*" } });
	const reader = r.body.getReader(), all = new Uint8Array(most);
	let size = 0;
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return { bytes: all.subarray(0, size), cut: false, size };
		all.set(value.subarray(0, most - size), size);
		size += value.length;
		if (size > most) break;
	}
	reader.cancel().catch(() => {});
	return { bytes: all, cut: true, size: Number(r.headers.get("Content-Length") || NaN) };
}

// save lets the browser keep an answer as a file.
export async function save(where, name) {
	const r = await ask("GET", where, { headers: { Accept: "*/*" } });
	const url = URL.createObjectURL(await r.blob());
	const a = document.createElement("a");
	a.href = url;
	a.download = name;
	document.body.append(a);
	a.click();
	a.remove();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

const silence = 40000; // the daemon shows every 15 s that a stream lives

// follow reads server-sent events until it is ended, and comes again when the
// connection is lost. (EventSource cannot send a token.) While the tab is hidden it
// has no connection: browsers allow six to one address for all tabs together.
export function follow(where, on) {
	let over = false, control = null, timer = 0, hiding = 0, tries = 0, last = "";

	async function run() {
		control = new AbortController();
		const mine = control;
		let watch = 0;
		const alive = () => {
			clearTimeout(watch);
			watch = setTimeout(() => mine.abort(), silence);
		};
		try {
			alive();
			const more = { Accept: "text/event-stream" };
			if (last) more["Last-Event-ID"] = last;
			const r = await ask("GET", where, { headers: more, signal: mine.signal });
			if (r.status === 204) return end();
			on.open?.();
			await read(r.body.getReader(), () => { alive(); tries = 0; });
			if (!over) again();
		} catch (e) {
			if (over || mine !== control) return;
			if (e instanceof Problem && e.status >= 400 && e.status < 500 && e.status !== 429) {
				end();
				on.refused?.(e);
				return;
			}
			again();
		} finally {
			clearTimeout(watch);
		}
	}

	async function read(reader, alive) {
		const text = new TextDecoder();
		let rest = "", kind = "", data = [];
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			alive();
			const lines = (rest + text.decode(value, { stream: true })).split("\n");
			rest = lines.pop();
			for (const raw of lines) {
				const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
				if (line === "") {
					if (data.length && !over) on.event(kind || "message", JSON.parse(data.join("\n")));
					kind = "";
					data = [];
					continue;
				}
				const colon = line.indexOf(":");
				const field = colon < 0 ? line : line.slice(0, colon);
				const v = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
				if (field === "event") kind = v;
				else if (field === "data") data.push(v);
				else if (field === "id") last = v;
				else if (field === "" && /^gap/.test(v)) on.gap?.();
			}
		}
	}

	function again() {
		on.lost?.();
		const pause = Math.min(500 * 2 ** tries++, 10000);
		timer = setTimeout(run, pause * (0.7 + 0.6 * Math.random()));
	}

	function seen() {
		clearTimeout(hiding);
		if (document.hidden) {
			hiding = setTimeout(() => {
				clearTimeout(timer);
				control?.abort();
				control = null;
			}, 5000);
		} else if (!control) {
			tries = 0;
			run();
		}
	}

	function end() {
		over = true;
		clearTimeout(timer);
		clearTimeout(hiding);
		control?.abort();
		document.removeEventListener("visibilitychange", seen);
		window.removeEventListener("online", now);
	}

	function now() {
		if (over || !control) return;
		clearTimeout(timer);
		control.abort();
		tries = 0;
		run();
	}

	document.addEventListener("visibilitychange", seen);
	window.addEventListener("online", now);
	run();
	return end;
}
