# Reads scripts/bench-verbs' figures (what, percentile, µs) and its list of problems; prints medians over the rounds,
# what each layer adds to the one below, and whether that is within the budget. Status 1 on a problem, and with
# strict=1 on a missed budget.

BEGIN { FS = "\t" }

FILENAME ~ /problems$/ { problem[++problems] = $0; next }

{ value[$1, $2, ++count[$1, $2]] = $3 + 0 }

function sorted(what, list,    i, j, n, t) {
    n = count[what, "p50"]
    for (i = 1; i <= n; i++) {
        t = value[what, "p50", i]
        for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
        list[j + 1] = t
    }
    return n
}

function row(what, label, below,    list, n, p50) {
    n = sorted(what, list)
    if (n == 0) return
    p50 = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    median[what] = p50
    least[what] = list[1]
    printf "  %-44s %9.3f  %-13s %s\n", label, p50, sprintf("%.3f-%.3f", list[1], list[n]), \
        below in median ? sprintf("%+.3f", p50 - median[below]) : ""
}

END {
    printf "\nhalf round trip in us, p50, medians of the rounds\n  %-44s %9s  %-13s %s\n", "", "p50", "min-max", "adds"
    row("bare", "a cache line between two processes", "")
    row("wire", "the shared-memory wire, a frame of 106 B", "bare")
    row("sockperf", "unmodified sockperf, 64 B, both ends", "wire")
    if (("wire" in median) && ("sockperf" in median)) {
        added = median["sockperf"] - median["wire"]
        met = added <= budget
        printf "  engine, shim and sockperf add %.3f us to the wire; budget %.3f: %s\n", added, budget, met ? "met" : "MISSED"
    } else problem[++problems] = "no figures"
    for (i = 1; i <= problems; i++) print "PROBLEM: " problem[i]
    if (json != "") {
        printf "{\"rounds\": %d, \"load\": %s, \"device\": \"software\", \"bare_us\": %.3f, \"wire_us\": %.3f, \"sockperf_us\": %.3f, \"added_us\": %.3f, \"budget_us\": %.3f, \"problems\": %d}\n", \
            rounds, load, median["bare"], median["wire"], median["sockperf"], added, budget, problems >json
        close(json)
    }
    exit problems > 0 || (strict && !met)
}
