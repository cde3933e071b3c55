#!/bin/sh
# Installs Setpoint: downloads a release, verifies its signature, copies the files below a prefix.
# Root is not needed. `cargo xtask dist` fills in the two values below.
#
#   curl -fsSL RELEASES/latest/download/install.sh | sh
#   curl -fsSL RELEASES/latest/download/install.sh | SETPOINT_VERSION=0.1.0 sh
#
# Environment:
#   SETPOINT_PREFIX    where to install; ~/.local, or /usr/local as root
#   SETPOINT_VERSION   the version to install; the newest release if unset
#   SETPOINT_RELEASES  where releases are published
set -eu

releases=${SETPOINT_RELEASES:-@RELEASES@}
public_key='@PUBLIC_KEY@'

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is required to $2; install it and run this again"
}

download() {
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL --retry 3 --connect-timeout 20 -o "$2" "$1" || fail "could not download $1"
    elif command -v wget >/dev/null 2>&1; then
        wget -q -O "$2" "$1" || fail "could not download $1"
    else
        fail "curl or wget is required to download files"
    fi
}

target_triple() {
    [ "$(uname -s)" = Linux ] || fail "Setpoint runs on Linux; this is $(uname -s)"
    case $(uname -m) in
        x86_64 | amd64) echo x86_64-unknown-linux-gnu ;;
        aarch64 | arm64) echo aarch64-unknown-linux-gnu ;;
        *) fail "there is no release for $(uname -m); build it with cargo instead" ;;
    esac
}

# Fails unless SHA256SUMS was signed with the release key.
verify_signature() {
    printf '%s\n' "$public_key" >"$work/key.pem"
    openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/SHA256SUMS.sig" \
        "$work/SHA256SUMS" >/dev/null 2>&1 ||
        fail "the signature of $base/SHA256SUMS is not valid; nothing was installed"
}

# Fails unless the file has the checksum that the signed list gives for its name.
verify_checksum() {
    expected=$(awk -v name="$1" '$2 == name { print $1 }' "$work/SHA256SUMS")
    [ -n "$expected" ] || fail "$base has no $1; nothing was installed"
    actual=$(sha256sum "$work/$1" | cut -d ' ' -f 1)
    [ "$expected" = "$actual" ] ||
        fail "$1 has checksum $actual, the release says $expected; nothing was installed"
}

# Copies one file below the prefix, replacing it at once, and notes it for `setpoint uninstall`.
place() {
    mkdir -p "$prefix/$(dirname "$3")"
    cp "$1" "$prefix/$3.new"
    chmod "$2" "$prefix/$3.new"
    mv -f "$prefix/$3.new" "$prefix/$3"
    echo "$3" >>"$work/installed-files"
}

install_files() {
    place "$work/files/setpoint" 755 bin/setpoint
    ln -sf setpoint "$prefix/bin/kubectl-setpoint"
    echo bin/kubectl-setpoint >>"$work/installed-files"
    place "$work/files/setpoint.bash" 644 share/bash-completion/completions/setpoint
    place "$work/files/setpoint.zsh" 644 share/zsh/site-functions/_setpoint
    place "$work/files/setpoint.fish" 644 share/fish/vendor_completions.d/setpoint.fish
    for page in "$work"/files/man/*; do
        place "$page" 644 "share/man/man1/$(basename "$page")"
    done
    place "$work/files/LICENSE" 644 share/doc/setpoint/LICENSE
    echo share/doc/setpoint/installed-files >>"$work/installed-files"
    sort -u "$work/installed-files" >"$prefix/share/doc/setpoint/installed-files"
}

main() {
    need openssl "verify the signature"
    need sha256sum "verify checksums"
    need tar "unpack the archive"
    triple=$(target_triple)
    if [ "$(id -u)" = 0 ]; then default_prefix=/usr/local; else default_prefix=${HOME:-}/.local; fi
    prefix=${SETPOINT_PREFIX:-$default_prefix}
    case $prefix in
        /.local | .local) fail "HOME is not set; set SETPOINT_PREFIX to where to install" ;;
    esac
    case ${SETPOINT_VERSION:-} in
        '') base=$releases/latest/download ;;
        *) base=$releases/download/v${SETPOINT_VERSION#v} ;;
    esac
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    archive=setpoint-$triple.tar.gz
    download "$base/SHA256SUMS" "$work/SHA256SUMS"
    download "$base/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
    verify_signature
    printf 'downloading %s/%s\n' "$base" "$archive"
    download "$base/$archive" "$work/$archive"
    verify_checksum "$archive"
    mkdir "$work/files"
    tar -xzf "$work/$archive" -C "$work/files"
    "$work/files/setpoint" version >"$work/version" 2>"$work/error" ||
        fail "this machine cannot run the program: $(head -n 1 "$work/error")"
    mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] ||
        fail "$prefix cannot be written; set SETPOINT_PREFIX to a directory of yours"
    install_files
    printf 'installed %s as %s/bin/setpoint\n' "$(cat "$work/version")" "$prefix"
    case :$PATH: in
        *:"$prefix/bin":*) echo 'try it: setpoint demo' ;;
        *) printf 'add it to your PATH: export PATH="%s/bin:$PATH"\nthen try: setpoint demo\n' "$prefix" ;;
    esac
}

main
