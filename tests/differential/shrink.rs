//! Makes a sequence shorter as long as it still differs.

/// Leaves steps out, first many at a time, then one by one.
pub(crate) fn shrink(
    mut steps: Vec<String>,
    mut differs: impl FnMut(&[String]) -> bool,
) -> Vec<String> {
    let mut chunk = steps.len() / 2;
    while chunk > 0 {
        // From behind, so that what a step needs is still there when the step goes.
        let mut end = steps.len();
        while end > 0 {
            let start = end.saturating_sub(chunk);
            let mut fewer = steps.clone();
            fewer.drain(start..end);
            if !fewer.is_empty() && differs(&fewer) {
                steps = fewer;
            }
            end = start;
        }
        chunk /= 2;
    }
    steps
}

#[test]
fn what_is_needed_stays() {
    let steps: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let needed = |s: &[String]| ["3", "17", "29"].iter().all(|n| s.iter().any(|x| x == n));
    assert_eq!(shrink(steps, needed), ["3", "17", "29"]);
}
