#!/usr/bin/env bash
# Fetches the plot library from the npm registry: to change its version, or to see
# that what lies here is what is published. hashes_test.go holds the hashes.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly package=uplot@1.6.32
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "$package" >/dev/null && tar -xzf uplot-*.tgz)
cp "$work/package/dist/uPlot.iife.min.js" uplot.js
cp "$work/package/dist/uPlot.min.css" uplot.css
cp "$work/package/LICENSE" LICENSE
sha256sum uplot.js uplot.css LICENSE
