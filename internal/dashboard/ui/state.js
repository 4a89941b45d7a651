// What all pages share, and what they do to the daemon.
import { send } from "./net.js";

export const app = {
	me: null, // role, node, version
	overview: null,
	lost: 0, // since when there is no connection, 0 for there is one
	notes: [], // what was done or went wrong
	ask: null, // a dialog that is open
};

let redrawing = false;
let painter = () => {};
export const paintWith = (f) => { painter = f; };

// redraw shows what has changed, at the next frame.
export function redraw() {
	if (redrawing) return;
	redrawing = true;
	requestAnimationFrame(() => {
		redrawing = false;
		painter();
	});
}

const roles = { none: 0, read: 1, submit: 2, admin: 3 };
export const may = (role) => roles[app.me?.role || "none"] >= roles[role];

// note tells what was done, note.bad what was not.
export function note(text, bad) {
	app.notes = app.notes.filter((n) => n.text !== text).slice(-2);
	const n = { text, bad, id: Math.random() };
	app.notes.push(n);
	if (!bad) { // a fault stays until it is dismissed
		const said = document.getElementById("said");
		said.textContent = text;
		setTimeout(() => { app.notes = app.notes.filter((o) => o !== n); said.textContent = ""; redraw(); }, 5000);
	}
	redraw();
}

export function fail(e) {
	if (e?.name === "AbortError") return;
	note([e.message, ...(e.faults || []).slice(0, 5).filter((f) => !e.message.includes(f))].join(" "), true);
}

const running = new Set();
export const busy = (name) => running.has(name);

// act asks the daemon for a change, once at a time, and tells how it went.
export async function act(name, done, work) {
	if (running.has(name)) return false;
	running.add(name);
	redraw();
	try {
		const said = await work();
		const text = typeof done === "function" ? done(said) : done;
		if (text) note(text);
		return true;
	} catch (e) {
		fail(e);
		return false;
	} finally {
		running.delete(name);
		redraw();
	}
}

// confirm asks a person, and resolves to true when the person agrees.
export function confirm(ask) {
	const from = document.activeElement;
	return new Promise((answer) => {
		app.ask = { ...ask, answer: (yes) => { app.ask = null; painter(); from?.focus?.(); answer(yes); } };
		redraw();
	});
}

// sure asks first, and then does it.
export async function sure(ask, name, done, work) {
	const said = await confirm(ask);
	return said && act(name, done, () => work(said));
}

// many does the same to many jobs, a part at a time, and returns how many it was.
export async function many(where, body, verb) {
	const failed = [];
	let count = 0, r;
	do {
		r = await send("POST", where, { ...body, after: r?.next }); // which also keeps to what was there at the first
		count += r.count || 0;
		failed.push(...(r.failed || []));
	} while (r.next);
	tellFailed(failed, verb);
	return count;
}

export function tellFailed(failed, verb) {
	if (failed.length) note(failed.length + " not " + verb + ". The first, " + failed[0].id + ": " + failed[0].error, true);
}

// Feed reads something again and again, and keeps what it was last.
export class Feed {
	constructor(read, every = 2500) {
		this.read = read;
		this.every = every;
		this.due = this.turn = 0;
		this.again = () => this.load(true);
	}
	async load(force) {
		if (!force && Date.now() < this.due) return;
		this.due = Date.now() + this.every;
		const turn = ++this.turn;
		let data, error = null;
		try {
			data = await this.read();
		} catch (e) {
			error = e;
		}
		if (turn !== this.turn) return; // it was asked again meanwhile
		this.error = error;
		if (!error) this.data = data;
		redraw();
	}
}
