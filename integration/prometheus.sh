#!/usr/bin/env bash
# Prints a folder with a real prometheus and its promtool, from Debian's package,
# which is unpacked once per version and user and not installed: no service starts.
# PROMETHEUS may name the folder of another one.
#
# It needs apt-get and dpkg-deb, and as root fetches apt's lists where there are
# none. Exit status 3: it cannot be had here, for the reason printed.

set -eu -o pipefail

have() { [[ -x $1/prometheus && -x $1/promtool ]]; }

cannot() {
	echo "no prometheus: $1" >&2
	exit 3
}

if [[ -n ${PROMETHEUS-} ]]; then
	have "$PROMETHEUS" || cannot "there is none in $PROMETHEUS"
	echo "$PROMETHEUS"
	exit
fi
if installed=$(command -v prometheus) && have "$(dirname "$installed")"; then
	dirname "$installed"
	exit
fi
for program in apt-get apt-cache dpkg-deb; do
	command -v "$program" >/dev/null || cannot "it comes from Debian's package, and there is no $program"
done

version() { apt-cache policy prometheus 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

found=$(version)
if [[ -z $found ]] && ((EUID == 0)); then
	apt-get update >&2 || cannot "apt's lists cannot be fetched"
	found=$(version)
fi
[[ -n $found ]] || cannot "apt knows no such package; try 'apt-get update'"

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/caddy-llmlb
folder=$cache/prometheus-$found
if ! have "$folder/usr/bin"; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work" # apt fetches as a user of its own
	fetch() { (cd "$work" && apt-get download prometheus >&2); }
	# The lists may be older than the package they name.
	fetch || { ((EUID == 0)) && apt-get update >&2 && fetch; } || cannot "the package cannot be fetched"
	dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
	have "$work/root/usr/bin" || cannot "the package has no prometheus and promtool in it"
	mkdir -p "$cache"
	rm -rf "$folder.$$"
	mv "$work/root" "$folder.$$"
	# Another one may have been quicker.
	mv -T "$folder.$$" "$folder" 2>/dev/null || rm -rf "$folder.$$"
fi
echo "$folder/usr/bin"
