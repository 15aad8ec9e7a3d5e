#!/usr/bin/env bash
# Prints the path of a Chromium for the tests of the status page: $CHROMIUM, one that
# is installed, or as root on Debian one that it installs. Exit status 3: none can be
# had here, for the reason printed.

set -eu -o pipefail

cannot() {
	echo "no Chromium: $1" >&2
	exit 3
}

find_one() {
	local name
	for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable; do
		if command -v "$name"; then
			return
		fi
	done
	return 1
}

if find_one; then
	exit
fi
if ((EUID)) || ! command -v apt-get >/dev/null; then
	cannot "install Debian's package chromium, or set CHROMIUM"
fi
# A font, too: without one a page has no letters.
{ apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >&2 ||
	cannot "installing Debian's package chromium did not work"
find_one || cannot "Debian's package chromium has no program of that name"
