# Sourced by tools/check and tools/demo from the project's root: makes sure that .venv exists and is current.
# Sets `python`. The stamp holds a checksum of what the environment was made from.

environment() {
    local stamp=.venv/.made-from wanted base candidate log
    wanted=$(cat pyproject.toml tools/constraints.txt tools/environment.sh | cksum)
    python=$PWD/.venv/bin/python
    if [ -x "$python" ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then
        export PATH="$PWD/.venv/bin:$PATH"
        return 0
    fi
    base=
    for candidate in ${PYTHON:-} python3.11 python3.12 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1; then
            base=$candidate
            break
        fi
    done
    if [ -z "$base" ]; then
        echo "error: no Python 3.11 or 3.12 found; install one, or name it in PYTHON" >&2
        return 1
    fi
    log=$(mktemp)
    echo "Making .venv (once)." >&2
    # torch by its exact version first: resolving it together with the rest takes pip minutes.
    if ! {
        { [ -x "$python" ] || "$base" -m venv .venv; } &&
            "$python" -m pip install --quiet --disable-pip-version-check "$(grep '^torch==' tools/constraints.txt)" &&
            "$python" -m pip install --quiet --disable-pip-version-check -c tools/constraints.txt -e '.[dev]'
    } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        echo "error: .venv could not be made; the lines above say why" >&2
        return 1
    fi
    rm -f "$log"
    echo "$wanted" >$stamp
    export PATH="$PWD/.venv/bin:$PATH"
}
