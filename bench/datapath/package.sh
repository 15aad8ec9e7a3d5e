#!/usr/bin/env bash
# Prints "PROGRAM LIBRARIES" for one of Debian's packages: the path of its program,
# and the folder of libraries that it needs besides the system's, or "-". What is
# installed is taken; else the package and what it depends on are unpacked once per
# version and user, and not installed: no service starts.
#
# usage: package.sh haproxy|nginx
#
# It needs apt-get and dpkg-deb, and as root fetches apt's lists where there are
# none. Exit status 3: it cannot be had here, for the reason printed.

set -eu -o pipefail

name=$1

cannot() {
	echo "no $name: $1" >&2
	exit 3
}

if installed=$(PATH=$PATH:/usr/local/sbin:/usr/sbin command -v "$name"); then
	echo "$installed -"
	exit
fi
for program in apt-get apt-cache dpkg-deb; do
	command -v "$program" >/dev/null || cannot "it comes from Debian's package, and there is no $program"
done

version() { apt-cache policy "$name" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

found=$(version)
if [[ -z $found ]] && ((EUID == 0)); then
	apt-get update >&2 || cannot "apt's lists cannot be fetched"
	found=$(version)
fi
[[ -n $found ]] || cannot "apt knows no such package; try 'apt-get update'"

folder=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/caddy-llmlb/$name-$found
if ! [[ -x $folder/usr/sbin/$name ]]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work" # apt fetches as a user of its own
	fetch() {
		# What an installation would add to this system, the package itself included.
		local add
		add=$(apt-get -s install --no-install-recommends "$name" | awk '$1 == "Inst" { print $2 }') || return
		# shellcheck disable=SC2086 # one word for each package
		(cd "$work" && apt-get download $add >&2)
	}
	# The lists may be older than the packages they name.
	fetch || { ((EUID == 0)) && apt-get update >&2 && fetch; } || cannot "the package cannot be fetched"
	for file in "$work"/*.deb; do
		dpkg-deb -x "$file" "$work/root"
	done
	[[ -x $work/root/usr/sbin/$name ]] || cannot "the package has no program of that name"
	mkdir -p "${folder%/*}"
	rm -rf "$folder.$$"
	mv "$work/root" "$folder.$$"
	# Another one may have been quicker.
	mv -T "$folder.$$" "$folder" 2>/dev/null || rm -rf "$folder.$$"
fi
libraries=-
for lib in "$folder"/usr/lib/*-linux-gnu*; do
	if [[ -d $lib ]]; then libraries=$lib; fi
done
echo "$folder/usr/sbin/$name $libraries"
