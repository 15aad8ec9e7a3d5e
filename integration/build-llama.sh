#!/usr/bin/env bash
# Builds llama.cpp's llama-server and prints its path, once per version and user:
# five minutes on two cores, then nothing.
#
# llama.cpp is in no Debian release yet. The npm package node-llama-cpp brings the
# whole source with it, as a git bundle, so that it can be built without a network.
#
# It needs npm, git, a C++ compiler and cmake; as root on Debian it installs what is
# missing. Exit status 3: the server cannot be had here, for the reason printed.

set -eu -o pipefail

readonly package=node-llama-cpp@3.21.1
readonly commit=80fb11ac73e66d89eae2c6a91d8a77428fa733ed # llama.cpp v0.4.0 as the package has it

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/caddy-llmlb
binary=$cache/llama-server-${commit:0:12}
if [[ -x $binary ]]; then
	echo "$binary"
	exit
fi

cannot() {
	echo "no llama-server: $1" >&2
	exit 3
}

# Debian's name of each program's package, where they differ.
declare -A debian=([c++]=g++)
missing=()
for program in npm git c++ cmake make; do
	command -v "$program" >/dev/null || missing+=("${debian[$program]-$program}")
done
if ((${#missing[@]})); then
	if ((EUID)) || ! command -v apt-get >/dev/null; then
		cannot "building it takes ${missing[*]}"
	fi
	{ apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >&2 ||
		cannot "installing ${missing[*]} did not work"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "$package" >&2) || cannot "npm has no $package for us"
tar -xzf "$work"/node-llama-cpp-*.tgz -C "$work" package/llama/gitRelease.bundle
git -c advice.detachedHead=false clone -q "$work/package/llama/gitRelease.bundle" "$work/source" >&2
found=$(git -C "$work/source" rev-parse HEAD)
if [[ $found != "$commit" ]]; then
	echo "$package carries $found, want $commit" >&2
	exit 1
fi

# For any machine of this kind, without TLS and web pages: those it would fetch.
# The model is tiny, so fast code is worth less than a fast build.
{
	cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_C_FLAGS_RELEASE='-O2 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
		-DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF \
		-DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
		-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
	nice -n 15 cmake --build "$work/build" --target llama-server -j "$(nproc)"
} >"$work/log" 2>&1 || {
	tail -40 "$work/log" >&2
	exit 1
}

mkdir -p "$cache"
# Under another name first, so that an interrupted copy is no half binary.
cp "$work/build/bin/llama-server" "$binary.$$"
mv "$binary.$$" "$binary"
echo "$binary"
