// The bytes of payloads and results, shown as text only: JSON, text, or a head in hex.
import { h, bytes } from "./dom.js";
import { peek, save } from "./net.js";
import { fail, redraw } from "./state.js";
import { button, chip, loading, quiet } from "./parts.js";

const most = 64 << 10; // bytes that are read to be shown
const head = 1 << 10; // bytes that are shown in hex

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
	for (let i = 0; i < b.length && i < head; i += 16) {
		const row = [...b.subarray(i, i + 16)];
		lines.push(i.toString(16).padStart(4, "0") + "  " + row.map((v) => v.toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " + row.map((v) => (v > 31 && v < 127 ? String.fromCharCode(v) : ".")).join(""));
	}
	return lines.join("\n");
}

// Content shows the bytes that an address has.
export class Content {
	constructor(where, name) {
		this.where = where;
		this.name = name;
		this.again = () => { this.wanted = false; this.load(); };
	}
	async load() {
		if (this.wanted) return;
		this.wanted = true;
		this.error = null;
		redraw();
		try {
			this.take(await peek(this.where, most));
		} catch (e) {
			this.error = e;
		}
		redraw();
	}
	// take sets what is shown: bytes, whether they are cut, and the size of all, where it is known.
	take(got) {
		const text = asText(got.bytes, got.cut);
		this.got = got;
		this.views = { JSON: text !== null && !got.cut ? asJSON(text) : null, text, hex: asHex(got.bytes) };
		this.as = Object.keys(this.views).find((k) => this.views[k] !== null);
		return this;
	}
	view() {
		const e = this.error, g = this.got;
		if (e) return h("div.actions", h("p.quiet", e.cause === "not-found" ? "The " + this.name + " is no longer kept." : e.message), e.status && e.status < 500 ? null : button("Try again", "read", this.again));
		if (!g) return loading();
		if (!g.bytes.length) return h("p.quiet", "It is empty.");
		const shown = this.as === "hex" ? Math.min(g.bytes.length, head) : g.bytes.length;
		return [
			h("div.actions",
				h("div.chips", { role: "group", "aria-label": "Format of the " + this.name }, Object.keys(this.views).filter((k) => this.views[k] !== null).map((k) => chip(k, this.as === k, () => { this.as = k; redraw(); }))),
				quiet((this.views.text === null ? "binary, " : "") + (g.size >= 0 ? bytes(g.size) : "more than " + bytes(most)) + (g.cut || shown < g.bytes.length ? "; showing the first " + bytes(shown) : "")),
				this.where ? button("Download", "read", () => save(this.where, this.name + ".bin").catch(fail)) : null),
			h("pre.content", { class: "content " + this.as, tabindex: 0, "aria-label": this.name }, this.views[this.as]),
		];
	}
}
