// Changes of state, for those who hear the page: one message in five seconds at
// most, and no more than three servers by name in it. An overload comes and goes by
// itself, many times a minute, and is shown but not told.

import { text } from './dom.js';

const pause = 5000;

export function announcer(element) {
	let waiting = [];
	let timer;

	function say() {
		timer = undefined;
		if (waiting.length === 0) return;
		text(element, sentence(waiting));
		waiting = [];
		timer = setTimeout(say, pause);
	}

	return (changes) => {
		for (const c of changes) {
			if (quiet(c.from) && quiet(c.row.state)) continue;
			waiting = waiting.filter((w) => w.pool !== c.pool || w.row.name !== c.row.name);
			waiting.push(c);
		}
		if (timer === undefined) say();
	};
}

const quiet = (state) => state === 'up' || state === 'overloaded';

function sentence(changes) {
	if (changes.length <= 3) {
		return changes.map(({ row }) => `${row.name} is ${row.state}${row.reason ? `: ${row.reason}` : ''}.`).join(' ');
	}
	const down = changes.filter(({ row }) => row.state === 'down').length;
	return `${changes.length} servers changed their state${down ? `; ${down} of them are down` : ''}.`;
}
