//! Scopes, as lists of words.

/// The words of both texts, each once, in order.
pub(super) fn union<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for word in texts.into_iter().flat_map(str::split_whitespace) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Whether every word of `wanted` is among those of `had`.
pub(super) fn covers(had: &str, wanted: &str) -> bool {
    let had: Vec<&str> = had.split_whitespace().collect();
    wanted.split_whitespace().all(|word| had.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_keeps_order_and_doubles_nothing() {
        assert_eq!(union(["b a", " a  c "]).as_deref(), Some("b a c"));
        assert_eq!(union(["", " "]), None);
    }

    #[test]
    fn a_scope_covers_its_parts() {
        assert!(covers("a b", "b"));
        assert!(covers("a", ""));
        assert!(!covers("ab", "a"));
    }
}
