// The table of a pool's servers: filtered, sorted, and a hundred at a time, so
// that a pool of thousands stays a page one can use.

import { arrange, el, text } from './dom.js';
import { count } from './format.js';
import { rowPlots } from './kinds.js';
import { rowView } from './row.js';
import { trouble } from './states.js';
import { askPast, store } from './store.js';

const page = 100;
const columns = ['Server', 'State', 'Running', 'Waiting', 'KV memory', 'TTFT', 'Tokens/s', 'In flight', 'Requests', 'Errors'];
const told = {
	Running: 'requests in the engine’s batch, of all gateways', Waiting: 'requests in the engine’s queue, of all gateways',
	'KV memory': 'share of the KV cache in use', TTFT: 'latest time to first token', 'Tokens/s': 'tokens the engine generates',
	'In flight': 'tokens of this gateway’s open requests', Requests: 'this gateway’s open requests', Errors: 'share of the latest attempts that failed',
};

// By numbers the highest comes first: that is what one looks for.
const sorts = {
	trouble: ['trouble first', (a, b) => trouble(a.state) - trouble(b.state)],
	order: ['as configured', () => 0],
	name: ['name', (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })],
	waiting: ['waiting', by((r) => r.waiting)],
	kv: ['KV memory', by((r) => r.kv)],
	ttft: ['time to first token', by((r) => r.ttft)],
	tokens: ['tokens in flight', by((r) => r.tokens)],
	errors: ['errors', by((r) => r.errors)],
};

function by(value) {
	return (a, b) => (value(b) ?? -1) - (value(a) ?? -1);
}

let ids = 0;

export function tableView(first, complain) {
	const n = ++ids;
	const filter = el('input', '', { type: 'search', id: `filter-${n}`, placeholder: 'name, state, reason, zone', autocomplete: 'off', spellcheck: 'false' });
	const sort = select(`sort-${n}`, Object.entries(sorts).map(([k, [name]]) => [k, name]));
	const plot = select(`plot-${n}`, Object.entries(rowPlots).map(([k, kind]) => [k, kind.title.toLowerCase()]));
	const found = el('p', 'found');
	const rest = el('button', 'rest', { type: 'button', hidden: '' });
	const plotHead = el('th', 'plotted', { role: 'columnheader', scope: 'col' });
	const body = el('tbody', '', { role: 'rowgroup' });
	const head = el('tr', '', { role: 'row' }, ...columns.map((c) => el('th', c === 'Server' || c === 'State' ? '' : 'number', { role: 'columnheader', scope: 'col', title: told[c] }, c)), plotHead);
	const table = el('table', 'servers', { role: 'table', 'aria-label': `servers of ${first.name}` }, el('thead', '', { role: 'rowgroup' }, head), body);
	const element = el('div', 'list', {},
		el('div', 'tools', { role: 'search', 'aria-label': `servers of ${first.name}` },
			labelled('Filter', filter), labelled('Sort', sort), labelled('Plot', plot), found),
		table, rest);

	const views = new Map();
	let pool = first, limit = page, shown = [], sortedAt = 0, asking = false;

	// order is the rows to show. Numbers that change each second would have rows jump
	// under the pointer, so they sort anew each five seconds only.
	function order() {
		const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
		const rows = [...pool.rows.values()].filter((r) => words.every((w) => `${r.name} ${r.address || ''} ${r.state} ${r.reason || ''} ${r.zone || ''}`.toLowerCase().includes(w)));
		const calm = sort.value in { trouble: 0, order: 0, name: 0 };
		if (!calm && Date.now() - sortedAt < 5000) {
			const before = new Map(shown.map((name, i) => [name, i]));
			return rows.sort((a, b) => (before.get(a.name) ?? 1e9) - (before.get(b.name) ?? 1e9));
		}
		sortedAt = Date.now();
		return rows.sort((a, b) => sorts[sort.value][1](a, b) || a.i - b.i);
	}

	function update(p) {
		pool = p;
		const rows = order();
		shown = rows.map((r) => r.name);
		for (const [name, v] of views) {
			if (!p.rows.has(name)) {
				v.close();
				views.delete(name);
			}
		}
		const elements = [];
		for (const r of rows.slice(0, limit)) {
			let v = views.get(r.name);
			if (!v) {
				v = rowView(r, { pool: () => pool, plot: plot.value, complain, want: ask, columns: columns.length + 2 });
				views.set(r.name, v);
			}
			v.update(r);
			elements.push(...v.elements());
		}
		arrange(body, elements);
		text(found, rows.length === p.rows.size ? `${count(rows.length)} servers` : `${count(rows.length)} of ${count(p.rows.size)} servers`);
		const hidden = rows.length - Math.min(rows.length, limit);
		rest.hidden = hidden === 0;
		text(rest, `Show ${count(Math.min(hidden, page))} more of ${count(hidden)}`);
		text(plotHead, `${rowPlots[plot.value].title}, 15 min`);
		if (store.actions && head.lastChild === plotHead) head.append(el('th', '', { role: 'columnheader', scope: 'col' }, el('span', 'unseen', {}, 'Action')));
	}

	// ask gets the history of the rows that are seen and have none, fifty at a time.
	const wanted = new Set();
	function ask(name) {
		wanted.add(name);
		if (asking) return;
		asking = true;
		setTimeout(async () => {
			const names = [...wanted].slice(0, 50);
			for (const w of names) wanted.delete(w);
			try {
				await askPast(pool, names);
				for (const w of names) views.get(w)?.past();
			} catch { /* the rows ask again when they are seen again */ }
			asking = false;
			if (wanted.size) ask([...wanted][0]);
		}, 100);
	}

	filter.oninput = () => { limit = page; update(pool); };
	sort.onchange = () => { sortedAt = 0; update(pool); };
	plot.onchange = () => { for (const v of views.values()) v.plot(plot.value); update(pool); };
	rest.onclick = () => { limit += page; update(pool); };

	return {
		element,
		update,
		past(whole) { for (const v of views.values()) v.past(whole); },
		tick() { for (const v of views.values()) if (v.elements()[0].isConnected) v.tick(); },
		close() { for (const v of views.values()) v.close(); },
	};
}

function select(id, options) {
	return el('select', '', { id }, ...options.map(([value, name]) => el('option', '', { value }, name)));
}

function labelled(name, control) {
	return el('label', 'tool', { for: control.id }, el('span', '', {}, name), control);
}
