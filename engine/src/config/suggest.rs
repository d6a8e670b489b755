//! Which known name a misspelt one was meant to be.
//!
//! Optimal string alignment distance: insertion, deletion, substitution and a swap of
//! neighbours cost one each.

/// Number of edits between two names.
#[must_use]
pub(super) fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut line = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            line[j] = (above[j] + 1).min(line[j - 1] + 1).min(above[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                line[j] = line[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, line);
    }
    above[b.len()]
}

/// The nearest of `known`, if it is near enough to be what was meant: up to a third of the
/// letters, three at most.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).clamp(1, 3);
    // Longer names cannot be near, and someone's environment may hold anything.
    if name.len() > 80 {
        return None;
    }
    let near = known
        .map(|k| (distance(name, k), k))
        .filter(|(d, _)| *d <= limit);
    near.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// The nearest variable name. The prefix counts as one letter, so that SHIM_MTU finds VMA_MTU.
pub(super) fn nearest_variable<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let (prefix, rest) = split(name);
    let limit = (rest.len() / 3).clamp(1, 3);
    if rest.len() > 80 {
        return None;
    }
    known
        .map(|k| {
            let (its_prefix, its_rest) = split(k);
            (
                distance(rest, its_rest) + usize::from(prefix != its_prefix),
                k,
            )
        })
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('_').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("RX_POLL", "RX_POLL"), 0);
        assert_eq!(distance("RX_POL", "RX_POLL"), 1);
        assert_eq!(distance("RX_PLOL", "RX_POLL"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn far_names_are_not_suggested() {
        let known = ["VMA_BF", "VMA_MTU"];
        assert_eq!(nearest_variable("VMA_QQQQQQ", known.into_iter()), None);
        assert_eq!(
            nearest_variable("SHIM_MTU", known.into_iter()),
            Some("VMA_MTU")
        );
        assert_eq!(nearest(&"x".repeat(100_000), known.into_iter()), None);
    }
}
