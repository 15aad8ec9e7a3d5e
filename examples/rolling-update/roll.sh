#!/usr/bin/env bash
# Restarts the inference servers one after the other, without a client noticing:
# each gets nothing new until what runs there has ended, is restarted, and is in use
# again before the next one has its turn. It stops at the first thing that goes
# wrong, and shows how the servers stand then.
#
#   roll.sh [<name>…]     default: gpu-1 gpu-2 gpu-3 gpu-4
#
# CADDY is the program, ADMIN the gateway's admin API, and LIMIT how long a server
# may take to finish its requests. When that is over nothing is cut: roll.sh stops.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
caddy=${CADDY:-caddy}
admin=${ADMIN:-localhost:2019}
limit=${LIMIT:-10m}

names=("$@")
((${#names[@]})) || names=(gpu-1 gpu-2 gpu-3 gpu-4)

trap 'echo "stopped at $name" >&2; "$caddy" llm-pool --address "$admin" >&2' ERR

for name in "${names[@]}"; do
	"$caddy" llm-drain "$name" --wait --limit "$limit" --address "$admin"
	"$here/server.sh" stop "$name"
	# Whatever is to be new about it: another image, model or driver.
	"$here/server.sh" start "$name"
	"$here/server.sh" ready "$name"
	"$caddy" llm-resume "$name" --wait --timeout 5m --address "$admin"
done
echo "all ${#names[@]} servers are restarted"
