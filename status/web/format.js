// Numbers as people read them, in the same way as `caddy llm-pool` prints them.
// What is not known is a dash and never 0.

export const unknown = '–';

const none = (x) => x === null || x === undefined || Number.isNaN(x);

// count groups thousands. Requests of others fade as their numbers age, so a few
// may be less than one.
export function count(x) {
	if (none(x)) return unknown;
	if (!Number.isInteger(x) && x < 9.95) return x.toFixed(1);
	return Math.round(x).toLocaleString('en-US');
}

// brief is count for narrow places: 12,100 is 12.1k.
export function brief(x) {
	if (none(x)) return unknown;
	if (x < 9950) return count(x);
	for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
		if (x >= 0.995 * unit) return (x / unit).toFixed(x / unit < 99.5 ? 1 : 0) + name;
	}
	return count(x);
}

// latency takes milliseconds.
export function latency(ms) {
	if (none(ms)) return unknown;
	if (ms < 9.95) return `${ms.toFixed(1)} ms`;
	if (ms < 999.5) return `${Math.round(ms)} ms`;
	const s = ms / 1000;
	return s < 99.5 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}

export function percent(share) {
	return none(share) ? unknown : `${Math.round(share * 100)}%`;
}

// span takes milliseconds of what has lasted, or will, for a while.
export function span(ms) {
	const s = Math.max(0, Math.round(ms / 1000));
	if (s < 100) return `${s} s`;
	const m = Math.round(s / 60);
	if (m < 100) return `${m} min`;
	const h = Math.round(m / 60);
	return h < 48 ? `${h} h` : `${Math.round(h / 24)} d`;
}

export function clock(ms) {
	return new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
}
