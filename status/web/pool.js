// One pool: its name and states, what waits, plots, how choices fell, and the
// table of its servers.

import { arrange, attr, el, text } from './dom.js';
import { brief, count, latency, percent } from './format.js';
import { poolPlots } from './kinds.js';
import { Plot } from './plots.js';
import { badge, tally } from './states.js';
import { tableView } from './table.js';

let ids = 0;

export function poolView(first, complain) {
	const id = `pool-${++ids}`;
	const states = el('ul', 'tally', { 'aria-label': 'servers by state' });
	const note = el('p', 'note');
	const alarm = el('p', 'notice', { hidden: '' });
	const plots = poolPlots.map((kind) => new Plot({ ...kind, axes: true }));
	const choices = choicesView();
	const table = tableView(first, complain);
	const element = el('section', 'pool', { 'aria-labelledby': id },
		el('div', 'title', {}, el('h2', '', { id }, first.name), states),
		note, alarm,
		el('div', 'plots', {}, ...plots.map((p) => p.element)),
		choices.element, table.element);
	let pool = first;

	function past(whole) {
		for (const p of plots) p.show(pool.past);
		table.past(whole);
	}

	const view = {
		element,
		past,
		update(p) {
			pool = p;
			const rows = [...p.rows.values()];
			showTally(states, rows);
			text(note, queueLine(p.head, rows));
			showAlarm(alarm, p.head);
			choices.update(p.head);
			table.update(p);
		},
		tick() { table.tick(); },
		close() {
			for (const p of plots) p.close();
			table.close();
			element.remove();
		},
	};
	past(true);
	return view;
}

function showTally(list, rows) {
	const before = new Map([...list.children].map((li) => [li.firstChild.dataset.state, li]));
	arrange(list, tally(rows).map(([state, n]) => {
		const li = before.get(state) || el('li', '', {}, badge(state));
		text(li.firstChild.lastChild, `${n} ${state}`);
		return li;
	}));
}

// queueLine says what runs and what waits, class by class where something does.
function queueLine(head, rows) {
	if (!head) return '';
	const calls = rows.reduce((n, r) => n + r.calls, 0);
	const parts = [`${count(calls)} ${calls === 1 ? 'request' : 'requests'} open`];
	const q = head.queue;
	if (q.calls > 0) {
		const waiting = (q.classes || []).filter((c) => c.calls > 0)
			.map((c) => `${count(c.calls)} ${c.name} (oldest ${latency(c.oldest)})`);
		parts.push(`waiting here: ${waiting.join(', ') || count(q.calls)}, ${brief(q.tokens)} tokens`);
	} else {
		parts.push('nothing waits here');
	}
	parts.push(`saturation ${(q.saturation ?? 0).toFixed(2)}`);
	if (head.strategy) parts.push(`strategy ${head.strategy}`);
	return parts.join(' · ');
}

function showAlarm(alarm, head) {
	attr(alarm, 'hidden', head?.all_down ? null : '');
	text(alarm, head?.all_down ? 'Checks have taken every server out at once. The pool goes on with those whose own traffic does not fail.' : '');
}

// The decisions, in the order of the legend: docs/monitoring.md says what each means.
const decisions = ['warm', 'cold', 'spill:waiting', 'spill:ttft', 'spill:load', 'spill:explore', 'only', 'policy', 'trial'];

// choicesView shows how choices fell and what was refused in the last 15 minutes.
function choicesView() {
	const bar = el('div', 'bar', { 'aria-hidden': 'true' });
	const legend = el('ul', 'legend');
	const refused = el('p', 'refused');
	const element = el('div', 'choices', {}, el('h3', '', {}, 'Choices in 15 minutes'), bar, legend, refused);
	return {
		element,
		update(head) {
			const shares = sharesOf(head?.decided || {});
			bar.replaceChildren(...shares.map(([reason, share]) => {
				const part = el('span', 'part', { 'data-decision': reason });
				part.style.width = `${100 * share}%`;
				return part;
			}));
			const words = shares.map(([reason, share, n]) => `${reason} ${n}`).join();
			if (legend.dataset.words !== words) {
				legend.dataset.words = words;
				legend.replaceChildren(...(shares.length ? shares.map(([reason, share, n]) => el('li', '', { 'data-decision': reason },
					`${reason} `, el('b', '', {}, share < 0.005 ? '<1%' : percent(share)), ` (${count(n)})`)) : [el('li', 'none', {}, 'none yet')]));
			}
			text(refused, refusedLine(head));
		},
	};
}

function sharesOf(decided) {
	const all = Object.values(decided).reduce((a, b) => a + b, 0);
	return Object.entries(decided)
		.sort((a, b) => place(a[0]) - place(b[0]))
		.map(([reason, n]) => [reason, n / all, n]);
}

function place(reason) {
	const at = decisions.indexOf(reason);
	return at < 0 ? decisions.length : at;
}

function refusedLine(head) {
	const all = Object.entries(head?.refusals || {}).sort((a, b) => b[1] - a[1]);
	if (all.length === 0) return 'Nothing refused since Caddy’s start.';
	const list = all.slice(0, 6).map(([code, n]) => `${count(n)} ${code}`);
	if (all.length > 6) list.push(`${all.length - 6} other codes`);
	return `Refused: ${count(head.refused)} in 15 minutes; since Caddy’s start ${list.join(', ')}.`;
}
