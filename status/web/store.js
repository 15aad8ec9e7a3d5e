// What the page knows: pools, their rows, and the history of both.

import { here } from './dom.js';

export const series = ['ttft', 'queue', 'tokens', 'kv', 'speed'];
const more = ['slow', 'line', 'kv_max'];

export const store = {
	pools: new Map(), // by name, in the order told
	actions: false,
	step: 5000, // ms between two points
	steps: 180,
	skew: 0, // the gateway's clock less this one's, ms
	at: 0, // moment of the newest point, by the gateway's clock
};

// now is the gateway's time, by which all moments are told.
export const now = () => Date.now() + store.skew;

const blank = () => new Array(store.steps).fill(null);

function pool(name) {
	let p = store.pools.get(name);
	if (!p) {
		p = { name, head: null, names: [], rows: new Map(), past: {}, pasts: new Map() };
		for (const k of [...series, ...more]) p.past[k] = blank();
		store.pools.set(name, p);
	}
	return p;
}

// takePools takes in what has changed, and returns the changes of state.
export function takePools(data) {
	store.skew = data.now - Date.now();
	const changes = [];
	for (const d of data.pools) {
		const p = pool(d.pool);
		if (d.head) p.head = d.head;
		for (const row of d.rows || []) {
			const was = p.rows.get(row.name);
			if (was && was.state !== row.state) changes.push({ pool: p.name, row, from: was.state });
			p.rows.set(row.name, row);
		}
		if (d.names) {
			p.names = d.names;
			const living = new Set(d.names);
			for (const name of [...p.rows.keys()]) {
				if (!living.has(name)) {
					p.rows.delete(name);
					p.pasts.delete(name);
				}
			}
		}
	}
	if (data.names) {
		const sorted = new Map();
		for (const name of data.names) sorted.set(name, pool(name));
		store.pools = sorted;
	}
	return changes;
}

// takeHistory takes in the whole of what was seen before. What is known of single
// servers is asked for anew: there may be a gap.
export function takeHistory(data) {
	store.at = data.at;
	for (const [name, past] of Object.entries(data.pools)) {
		const p = pool(name);
		Object.assign(p.past, past);
		p.pasts.clear();
	}
}

// takeSteps adds what came since. A server's own points are those of its row now.
export function takeSteps(data) {
	store.at = data.at;
	for (const [name, past] of Object.entries(data.pools)) {
		const p = pool(name);
		let n = 0;
		for (const [k, points] of Object.entries(past)) {
			n = points.length;
			push(p.past[k], ...points);
		}
		const gap = new Array(Math.max(0, n - 1)).fill(null);
		for (const [server, own] of p.pasts) {
			const row = p.rows.get(server);
			for (const k of series) push(own[k], ...gap, row ? point(row, k) : null);
		}
	}
}

function push(list, ...points) {
	list.push(...points);
	if (list.length > store.steps) list.splice(0, list.length - store.steps);
}

function point(row, k) {
	if (k === 'queue') return row.waiting;
	return row[k] ?? null;
}

// times are the moments of the points, in seconds as plots have them.
export function times() {
	const list = new Array(store.steps);
	for (let i = 0; i < store.steps; i++) {
		list[i] = (store.at - (store.steps - 1 - i) * store.step) / 1000;
	}
	return list;
}

// askPast asks for the history of servers, and what more there is to say of them.
export async function askPast(p, servers) {
	const query = new URLSearchParams({ pool: p.name });
	for (const name of servers) query.append('endpoint', name);
	const answer = await fetch(here(`history?${query}`), { cache: 'no-store' });
	if (!answer.ok) throw new Error(`the gateway answered ${answer.status}`);
	const data = await answer.json();
	for (const [name, e] of Object.entries(data.endpoints)) {
		if (e.series && !p.pasts.has(name)) p.pasts.set(name, e.series);
	}
	return data.endpoints;
}
