#!/usr/bin/env bash
# One of the four inference servers: a process that can be started and stopped.
# Yours are units of systemd, containers or the like; put that here, and leave
# roll.sh as it is.
#
#   server.sh start|stop|ready gpu-1|gpu-2|gpu-3|gpu-4
#
# CADDY is the program, RUN a folder for process ids and logs, and GPU_1 to GPU_4
# are the addresses, as in the Caddyfile.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
caddy=${CADDY:-caddy}
run=${RUN:-${TMPDIR:-/tmp}/llmlb-rolling-update}
name=$2

case $name in
gpu-1) address=${GPU_1:-127.0.0.1:8101} ;;
gpu-2) address=${GPU_2:-127.0.0.1:8102} ;;
gpu-3) address=${GPU_3:-127.0.0.1:8103} ;;
gpu-4) address=${GPU_4:-127.0.0.1:8104} ;;
*) echo "there is no server $name; have gpu-1 to gpu-4" >&2 && exit 2 ;;
esac

case $1 in
start)
	mkdir -p "$run"
	ADDRESS=$address NAME=$name nohup "$caddy" run --adapter caddyfile --config "$here/server.Caddyfile" \
		>>"$run/$name.log" 2>&1 </dev/null &
	echo $! >"$run/$name.pid"
	;;
stop)
	pid=$(<"$run/$name.pid")
	kill "$pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	rm "$run/$name.pid"
	;;
ready) # waits until it can serve
	until curl -fsS -o /dev/null "http://$address/health" 2>/dev/null; do sleep 0.1; done
	;;
*)
	echo "usage: server.sh start|stop|ready <name>" >&2
	exit 2
	;;
esac
