# Reads scripts/bench's figures (case, mode, metric, value) and its list of problems; prints medians and
# ratios, says what misses its target, writes JSON. Status 1 on a problem, and with strict=1 on a missed target.

BEGIN { FS = "\t" }

FILENAME ~ /problems$/ { problem[++problems] = $0; next }

{
    key = $1 SUBSEP $2 SUBSEP $3
    if (!(key in count)) order[++keys] = key
    value[key, ++count[key]] = $4
}

function sorted(key, list,    i, j, n, t) {
    n = count[key]
    for (i = 1; i <= n; i++) {
        t = value[key, i] + 0
        for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
        list[j + 1] = t
    }
    return n
}

function median(c, m, metric,    list, n) {
    n = sorted(c SUBSEP m SUBSEP metric, list)
    if (n == 0) return -1
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

function total(c, m, metric,    i, sum, key) {
    key = c SUBSEP m SUBSEP metric
    for (i = 1; i <= count[key]; i++) sum += value[key, i]
    return sum + 0
}

function spread(c, m, metric,    list, n) {
    n = sorted(c SUBSEP m SUBSEP metric, list)
    return n ? sprintf("%.2f-%.2f", list[1], list[n]) : "-"
}

function name(m) {
    return m == "kernel" ? "kernel, blocking" : m == "nonblocked" ? "kernel, non-blocked" : \
        m == "shim" ? "shim, VMA_SPEC=latency" : m == "bare" ? "floor: bare ring frames" : "floor: UDP frames"
}

function row(c, m, label,    p50) {
    p50 = median(c, m, "p50_us")
    if (p50 < 0) return
    printf "  %-26s %9.2f %9.2f %9.2f   %-16s %9d %6d\n", label, p50, median(c, m, "p99_us"), \
        median(c, m, "p999_us"), spread(c, m, "p50_us"), total(c, m, "messages"), \
        total(c, m, "dropped") + total(c, m, "duplicated") + total(c, m, "out_of_order")
}

# A target: at_least=1 means that the ratio must reach the limit, 0 that it must stay below it.
function target(c, what, ratio, limit, at_least,    met) {
    if (ratio < 0) return
    met = at_least ? ratio >= limit : ratio <= limit
    ratios[++ratio_count] = sprintf("{\"case\": \"%s\", \"ratio\": \"%s\", \"value\": %.3f, \"target\": %.2f, \"met\": %s}", \
        c, what, ratio, limit, met ? "true" : "false")
    printf "  %-44s %7.2f   target %s %.2f   %s\n", what, ratio, at_least ? ">=" : "<=", limit, met ? "met" : "MISSED"
    if (!met) missed[++misses] = sprintf("%s: %s is %.2f, target %s %.2f: %s by %.0f %%", c, what, ratio, \
        at_least ? "at least" : "at most", limit, at_least ? "short" : "over", at_least ? (1 - ratio / limit) * 100 : (ratio / limit - 1) * 100)
}

function over(a, b) { return a > 0 && b > 0 ? a / b : -1 }

function ping_pong(c,    shim) {
    if (median(c, "kernel", "p50_us") < 0 && median(c, "nonblocked", "p50_us") < 0 && \
        median(c, "shim", "p50_us") < 0) return
    printf "\n%s ping-pong, half round trip in us, medians of the rounds\n", c
    printf "  %-26s %9s %9s %9s   %-16s %9s %6s\n", "", "p50", "p99", "p99.9", "p50 min-max", "messages", "lost*"
    row(c, "kernel", name("kernel")); row(c, "nonblocked", name("nonblocked")); row(c, "shim", name("shim"))
    shim = median(c, "shim", "p50_us")
    target(c, "kernel blocking / shim", over(median(c, "kernel", "p50_us"), shim), 20, 1)
    target(c, "kernel non-blocked / shim", over(median(c, "nonblocked", "p50_us"), shim), 1.5, 1)
    target(c, "shim / bare ring floor", over(shim, median("floor", "bare", "p50_us")), 1.15, 0)
    target(c, "shim / floor with the engine's UDP frames", over(shim, median("floor", "udp", "p50_us")), 1.15, 0)
}

function quoted(text) { gsub(/["\\]/, "\\\\&", text); gsub(/[[:cntrl:]]/, " ", text); return "\"" text "\"" }

function strings(list, n,    i, out) {
    for (i = 1; i <= n; i++) out = out (i > 1 ? ", " : "") quoted(list[i])
    return "[" out "]"
}

function write_json(    i, j, part, out, comma) {
    printf "{\n  \"schema\": 1,\n  \"rounds\": %d,\n  \"seconds\": %d,\n  \"load\": %s,\n  \"kernel\": %s,\n  \"cpu\": %s,\n  \"figures\": [\n", \
        rounds, seconds, load, quoted(kernel), quoted(cpu) >json
    for (i = 1; i <= keys; i++) {
        split(order[i], part, SUBSEP)
        comma = i < keys ? "," : ""
        out = ""
        for (j = 1; j <= count[order[i]]; j++) out = out (j > 1 ? ", " : "") value[order[i], j] + 0
        printf "    {\"case\": \"%s\", \"mode\": \"%s\", \"metric\": \"%s\", \"median\": %s, \"values\": [%s]}%s\n", part[1], \
            part[2], part[3], median(part[1], part[2], part[3]), out, comma >json
    }
    printf "  ],\n  \"ratios\": [" >json
    for (i = 1; i <= ratio_count; i++) printf "%s\n    %s", (i > 1 ? "," : ""), ratios[i] >json
    printf "\n  ],\n  \"missed\": %s,\n  \"problems\": %s\n}\n", strings(missed, misses), strings(problem, problems) >json
    close(json)
}

END {
    OFMT = CONVFMT = "%.10g"
    ping_pong("unicast")
    ping_pong("multicast")
    if (median("floor", "bare", "p50_us") >= 0) {
        printf "\nring without a socket layer, half round trip in us\n"
        row("floor", "bare", name("bare")); row("floor", "udp", name("udp"))
    }
    if (median("throughput", "kernel", "sent_per_s") >= 0 || median("throughput", "shim", "sent_per_s") >= 0) {
        printf "\nunicast throughput, 64 B messages per second\n  %-26s %12s %12s %9s\n", "", "sent", "received", "lost"
        for (i = 1; i <= 2; i++) {
            m = i == 1 ? "kernel" : "shim"
            if ((s = median("throughput", m, "sent_per_s")) < 0) continue
            r = median("throughput", m, "received_per_s")
            printf "  %-26s %12d %12d %7.2f %%\n", name(m), s, r, (s > 0 ? (1 - r / s) * 100 : 0)
        }
        if ((r = over(median("throughput", "shim", "received_per_s"), median("throughput", "kernel", "received_per_s"))) > 0)
            printf "  %-44s %7.2f\n", "received: shim / kernel", r
    }
    printf "\n* lost, duplicated or out of order, by sockperf's own count; all rounds together\n"
    for (i = 1; i <= misses; i++) print "short of its target: " missed[i]
    for (i = 1; i <= problems; i++) print "PROBLEM: " problem[i]
    write_json()
    exit problems > 0 || (strict && misses > 0)
}
