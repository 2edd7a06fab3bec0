//! The name that was probably meant.

/// The name with the fewest differences, if they are few enough.
pub fn nearest(typed: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let typed = typed.to_lowercase();
    let most = (typed.len() / 3).clamp(1, 3);
    names
        .map(|name| (distance(&typed, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= most || name.starts_with(&typed))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many characters have to be put in, taken out, replaced or swapped with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let change = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + change);
            let swapped =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if swapped {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let names = || ["help", "history", "tools", "reload-mcp", "resume"].map(str::to_owned);
        for (typed, meant) in [
            ("hlep", Some("help")),
            ("tool", Some("tools")),
            ("reloadmcp", Some("reload-mcp")),
            ("hist", Some("history")),
            ("Resum", Some("resume")),
            ("xyz", None),
        ] {
            let found = nearest(typed, names().into_iter());
            assert_eq!(found.as_deref(), meant, "{typed}");
        }
    }
}
