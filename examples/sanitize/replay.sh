#!/usr/bin/env bash
# Replays what capture_gpu.sh has captured, on any machine: examples/sanitize/replay.sh FOLDER BSR
#
# Two of the kernels have a defect: one lacks a barrier, and one has a mask that is too wide. The script fails unless these two and no
# others are found.
set -euo pipefail
folder=$(cd "$1" && pwd)
bsr=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
for archive in "$folder"/*.tar.gz; do
    tar -xzf "$archive"
done
for launch in */launches/*/launch.toml; do
    where=$(dirname "$launch")
    entry=$(sed -n 's/^entry = "\(.*\)"/\1/p' "$launch")
    # Of the driver's module, or what Triton has compiled.
    kernel=$(find "$where" -name 'module.*' -print -quit)
    kernel=${kernel:-${where%%/*}/$entry.ptx}
    status=0
    "$bsr" sanitize "$kernel" --launch "$launch" >"$where/report" || status=$?
    case $entry in
        *multiplyILb0E*) class=race ;;
        captured_wide) class=out-of-bounds ;;
        *) class= ;;
    esac
    found=$(sed -n 's/^error\[\(.*\)\].*/\1/p' "$where/report" | sort -u | paste -sd ' ')
    printf '%-24s %-64s %s\n' "$where" "$entry" "${found:-no finding}"
    if [[ $status == 2 || $found != "$class" ]]; then
        cat "$where/report"
        wrong=1
    fi
done
exit "$wrong"
