// The stream of events from the gateway. The browser connects again by itself when
// a stream ends, as it does when the configuration is reloaded; not when it was
// refused, and not when a connection died without a word. Both are seen to here.

const names = ['hello', 'history', 'steps', 'pools', 'beat'];

// A stream says something each 15 seconds.
const silence = 40_000;

// connect calls on[name] with the data of each event, and on.link with 'live' or
// 'lost'. Addresses are relative to the page, which may stand below any path.
export function connect(on) {
	let source, heard, retry;
	let wait = 1000;

	function open() {
		clearTimeout(retry);
		retry = undefined;
		source = new EventSource('events');
		heard = Date.now();
		source.onopen = () => { heard = Date.now(); };
		source.onerror = () => {
			on.link('lost');
			if (source.readyState === EventSource.CLOSED) again();
		};
		for (const name of names) {
			source.addEventListener(name, (e) => {
				heard = Date.now();
				wait = 1000;
				if (name === 'hello') on.link('live');
				if (on[name]) on[name](JSON.parse(e.data));
			});
		}
	}

	function again() {
		source.close();
		if (retry !== undefined) return;
		retry = setTimeout(open, wait);
		wait = Math.min(2 * wait, 15_000);
	}

	setInterval(() => {
		if (retry === undefined && Date.now() - heard > silence) {
			on.link('lost');
			again();
		}
	}, 5000);
	open();
}
