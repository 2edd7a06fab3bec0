//! A text that may be long: its beginning is shown, the rest one click away.

/// Characters that are shown at once.
const SHOWN_CHARS: usize = 4000;

/// A text in two pieces.
pub(in crate::console::pages) struct LongText<'t> {
    pub(in crate::console::pages) head: &'t str,
    /// Empty for a text that is not long.
    pub(in crate::console::pages) rest: &'t str,
    /// The size of the rest.
    pub(in crate::console::pages) rest_bytes: u64,
}

impl<'t> LongText<'t> {
    pub(in crate::console::pages) fn new(text: &'t str) -> Self {
        let end = text.char_indices().nth(SHOWN_CHARS);
        let (head, rest) = text.split_at(end.map_or(text.len(), |(end, _)| end));
        let rest_bytes = u64::try_from(rest.len()).unwrap_or(u64::MAX);
        Self {
            head,
            rest,
            rest_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ä".repeat(SHOWN_CHARS + 1);
        let cut = LongText::new(&text);
        assert_eq!((cut.head.chars().count(), cut.rest), (SHOWN_CHARS, "ä"));
        assert_eq!(cut.rest_bytes, 2);
        let short = LongText::new("x");
        assert_eq!((short.head, short.rest), ("x", ""));
    }
}
