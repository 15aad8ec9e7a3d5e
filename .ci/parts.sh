# Sourced by run and full: runs named parts one after the other, says how long
# each took, and stops at the first that fails.
#
#   part NAME COMMAND…    runs COMMAND; does nothing when parts were named on the
#                         command line and NAME is not among them
#   finish                prints the table of times; the script's last word
#
# $tmp is a folder of the script's own, also used by everything it starts; it is
# removed at the end.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null # nothing here may wait for somebody to type

readonly module=github.com/caddy-llmlb/caddy-llmlb
readonly caddy_version=v2.11.9
readonly gofumpt=mvdan.cc/gofumpt@v0.12.0
readonly golangci_lint=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
readonly xcaddy=github.com/caddyserver/xcaddy/cmd/xcaddy@v0.4.5

tmp=$(mktemp -d) || exit 1
export TMPDIR=$tmp
trap 'jobs -p | xargs -r kill 2>/dev/null; chmod -R u+w "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

wanted=("$@") # empty: all parts
known=()
times=()

part() {
	local name=$1
	shift
	known+=("$name")
	if ((${#wanted[@]})) && [[ " ${wanted[*]} " != *" $name "* ]]; then
		return
	fi
	printf '\n=== %s\n' "$name"
	local begun=$SECONDS status=0
	"$@" || status=$?
	times+=("$(printf '%-12s %5d s' "$name" $((SECONDS - begun)))")
	if ((status)); then
		times[-1]+="   FAILED"
		finish
		printf '\nFAILED: %s (exit status %d)\n' "$name" "$status"
		exit 1
	fi
	printf -- '--- %s took %d s\n' "$name" $((SECONDS - begun))
}

finish() {
	local name
	printf '\n'
	if ((${#times[@]})); then
		printf '%s\n' "${times[@]}"
	fi
	printf '%-12s %5d s\n' total "$SECONDS"
	for name in "${wanted[@]}"; do
		if [[ " ${known[*]} " != *" $name "* && "${times[*]-}" != *FAILED* ]]; then
			printf 'no part is called %s; there are: %s\n' "$name" "${known[*]}"
			exit 2
		fi
	done
}

# listing_nothing runs a command that lists what is wrong, and fails when it
# lists anything.
listing_nothing() {
	local listed
	listed=$("$@") || return
	if [[ -n $listed ]]; then
		printf '%s\n' "$listed"
		return 1
	fi
}

# failures FILE… says once more which tests failed, and with which words: their logs
# are thousands of lines, and where only the last ones are kept nobody would know.
failures() {
	printf '\nwhat failed:\n'
	grep -hE '^[[:space:]]*--- FAIL|^[[:space:]]+[a-z0-9_]+\.go:[0-9]+:|^panic:|^WARNING: DATA RACE|^FAIL' "$@" | head -100
}

# fuzz TIME [FLAG…] runs each fuzz test for so long, or for as long as its package is
# worth where TIME is empty. Each package with fuzz tests is built once, with the flags
# given.
fuzz() {
	local given=$1 time folder name names binary=$tmp/fuzz.test folders
	shift
	folders=$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u)
	if [[ -z $folders ]]; then
		echo "no fuzz test was found"
		return 1
	fi
	for folder in $folders; do
		case ${given:+all}$folder in
		all*) time=$given ;;
		./request | ./health | ./answer | ./caddyfile) time=10s ;;
		*) time=3s ;;
		esac
		go test -c "$@" -o "$binary" "$folder" || return
		names=$("$binary" -test.list '^Fuzz') || return
		for name in $names; do
			(cd "$folder" && fuzz_one "$name" "$binary" "$time") || return
		done
	done
}

# The fuzzer sometimes reports its own deadline as a failure of the test. Only
# that, without a failing input, is tried once more.
fuzz_one() {
	local log=$tmp/fuzz.log try
	for try in 1 2; do
		"$2" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "$3" -test.fuzzminimizetime 20x \
			-test.fuzzcachedir "$tmp/fuzz" >"$log" 2>&1 && break
		if ((try == 2)) || grep -q 'Failing input' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			cat "$log"
			return 1
		fi
	done
	echo "$1: $(grep -E '^fuzz: elapsed' "$log" | tail -1)"
}
