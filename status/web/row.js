// One server: a row of the table, and below it, when it is opened, all of its plots
// and what was learned of it.

import { press } from './actions.js';
import { detailsView } from './details.js';
import { attr, el, text } from './dom.js';
import { brief, count, latency, percent, span, unknown } from './format.js';
import { rowPlots } from './kinds.js';
import { Plot } from './plots.js';
import { badge, rebadge } from './states.js';
import { now, store } from './store.js';

const cell = (label, cls, ...content) => el('td', cls, { role: 'cell', 'data-label': label }, ...content);

let ids = 0;

export function rowView(first, { pool, plot, complain, want, columns }) {
	const id = `details-${++ids}`;
	const open = el('button', 'open', { type: 'button', 'aria-expanded': 'false', 'aria-controls': id }, first.name);
	const where = el('span', 'where');
	const state = badge(first.state);
	const since = el('span', 'since');
	const why = el('p', 'why');
	const numbers = Object.fromEntries(['running', 'waiting', 'ttft', 'speed', 'tokens', 'calls', 'errors'].map((k) => [k, el('span')]));
	const fill = el('span', 'fill'), kv = el('span');
	const spark = cell('', 'plotted');
	const tr = el('tr', 'server', { role: 'row' },
		el('th', 'who', { role: 'rowheader', scope: 'row' }, open, where),
		cell('State', 'state', el('div', 'line', {}, state, since), why),
		cell('Running', 'number', numbers.running), cell('Waiting', 'number', numbers.waiting),
		cell('KV memory', 'number kv', el('span', 'meter', { 'aria-hidden': 'true' }, fill), kv),
		cell('TTFT', 'number', numbers.ttft), cell('Tokens/s', 'number', numbers.speed),
		cell('In flight', 'number', numbers.tokens), cell('Requests', 'number', numbers.calls), cell('Errors', 'number', numbers.errors),
		spark);
	let row = first, key = plot, line = null, button = null, details = null;

	function draw() {
		const past = pool().pasts.get(row.name);
		if (past) line.show(past);
		else want(row.name);
	}

	function plotted(k) {
		key = k;
		line?.close();
		line = new Plot({ lines: [{ key, color: 'a' }], ...rowPlots[key], axes: false });
		// It is asked for when it comes into sight, and not before.
		const seen = line.seen.bind(line);
		line.seen = (visible) => {
			seen(visible);
			if (visible && !line.data) draw();
		};
		spark.replaceChildren(line.element);
		attr(spark, 'data-label', rowPlots[key].title);
	}

	open.onclick = () => {
		if (details) {
			details.close();
			details = null;
		} else {
			details = detailsView(id, columns, pool, row.name);
		}
		attr(open, 'aria-expanded', details ? 'true' : 'false');
		if (details) tr.after(details.element);
	};

	function action() {
		if (!store.actions) return;
		if (!button) {
			button = el('button', 'act', { type: 'button' });
			button.onclick = () => press(button.dataset.act, pool(), row, complain);
			tr.append(cell('', 'action', button));
		}
		const what = row.drain_by ? 'resume' : 'drain';
		button.dataset.act = what;
		text(button, what === 'drain' ? 'Drain' : 'Resume');
		attr(button, 'aria-label', `${button.textContent} ${row.name}`);
		// What the configuration drains only the configuration resumes.
		attr(button, 'disabled', row.drain_by === 'configuration' ? '' : null);
		attr(button, 'title', row.drain_by === 'configuration' ? 'drained by the configuration: take “drain” out of it and reload' : null);
	}

	function tick() {
		text(since, row.since ? span(now() - row.since) : '');
		text(why, reason(row));
	}

	plotted(key);
	return {
		elements: () => (details ? [tr, details.element] : [tr]),
		plot: plotted,
		tick,
		update(r) {
			row = r;
			rebadge(state, r.state);
			attr(tr, 'data-state', r.state);
			text(where, [r.address, r.zone && `zone ${r.zone}`, r.weight > 0 && r.weight !== 1 && `weight ${r.weight}`].filter(Boolean).join(' · '));
			text(numbers.running, count(r.running));
			text(numbers.waiting, count(r.waiting));
			text(numbers.ttft, latency(r.ttft));
			text(numbers.speed, brief(r.speed));
			text(numbers.tokens, brief(r.tokens));
			text(numbers.calls, count(r.calls));
			text(numbers.errors, percent(r.errors));
			numbers.errors.classList.toggle('bad', r.errors >= 0.1);
			text(kv, percent(r.kv));
			fill.style.width = `${100 * Math.min(1, r.kv ?? 0)}%`;
			fill.classList.toggle('full', (r.kv ?? 0) >= 0.9);
			action();
			tick();
			details?.update(r);
		},
		past(whole) {
			if (whole && line.visible) draw();
			else if (line.data) line.show(pool().pasts.get(row.name) || line.data);
			else if (line.visible) draw();
			details?.past(whole);
		},
		close() {
			line.close();
			details?.close();
			tr.remove();
		},
	};
}

// reason says why the server is in its state, what comes next, and what else is not
// as usual.
function reason(r) {
	const parts = [r.reason];
	if (r.next) parts.push(r.next_at ? `${r.next} in ${span(Math.max(1000, r.next_at - now()))}` : r.next);
	if (r.state !== 'down' && r.share < 1) parts.push(r.state === 'degraded' ? `gets ${percent(r.share)} of its share` : `warming up: ${percent(r.share)} of its share`);
	if (r.age) parts.push(`numbers ${span(1000 * r.age)} old`);
	if (r.loadless) parts.push('tells no load');
	return parts.filter(Boolean).join('; ');
}
