// What stands below an opened row: five plots, and what the gateway knows of the
// server beside its row.

import { el } from './dom.js';
import { brief, count, latency } from './format.js';
import { rowPlots } from './kinds.js';
import { Plot } from './plots.js';
import { askPast } from './store.js';

// The names of models and the like are asked for anew each five seconds.
const pause = 5000;

export function detailsView(id, columns, pool, name) {
	const plots = Object.entries(rowPlots).map(([key, kind]) => new Plot({ ...kind, lines: [{ key, color: 'a' }], axes: true }));
	const facts = el('dl', 'facts');
	const element = el('tr', 'details', { role: 'row', id },
		el('td', '', { role: 'cell', colspan: columns }, el('div', 'plots', {}, ...plots.map((p) => p.element)), facts));
	let askedAt = 0;

	async function ask() {
		askedAt = Date.now();
		try {
			const answer = (await askPast(pool(), [name]))[name];
			if (answer) list(facts, answer.more);
			past();
		} catch { /* asked again in five seconds */ }
	}

	function past() {
		const own = pool().pasts.get(name);
		if (own) for (const p of plots) p.show(own);
	}

	ask();
	return {
		element,
		update() { if (Date.now() - askedAt >= pause) ask(); },
		past(whole) { if (whole) ask(); else past(); },
		close() {
			for (const p of plots) p.close();
			element.remove();
		},
	};
}

// list writes the facts that are known.
function list(facts, m) {
	const chosen = Object.entries(m.decisions || {}).map(([reason, n]) => `${reason} ${count(n)}`).join(', ');
	const known = [
		['Engine', m.engine],
		['Models', m.models?.join(', ')],
		['Circuit', m.circuit],
		['Prompt tokens/s, learned', m.prefill_tokens_per_second && brief(m.prefill_tokens_per_second)],
		['Between two tokens, learned', m.itl_ms && latency(m.itl_ms)],
		['Least time to first token', m.ttft_floor_ms && latency(m.ttft_floor_ms)],
		['Predicted for a usual prompt', `${latency(m.predicted_ttft_ms)} (${brief(Math.round(m.usual_prompt_tokens))} tokens)`],
		['Prompt tokens to compute', brief(m.prompt_tokens_in_flight)],
		['Output tokens expected', brief(m.output_tokens_in_flight)],
		['Tokens for clients that left', brief(m.cancelled_tokens)],
		['Chosen, since it is known', chosen || 'never'],
	];
	facts.replaceChildren(...known.filter(([, value]) => value).map(([term, value]) => el('div', '', {}, el('dt', '', {}, term), el('dd', '', {}, value))));
}
