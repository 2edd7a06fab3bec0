//! From what a person types to what the index is asked. Everything is quoted: no sign has a meaning of its own.

use super::SearchMatching;

/// Longer input is cut: nobody searches for more.
const MAX_QUERY_LENGTH: usize = 2048;

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchPlan {
    /// There is nothing to look for.
    Nothing,
    /// In the index of words.
    Words,
    /// In the index of three-character pieces.
    Trigrams,
    /// In every message.
    Scan,
}

/// The words of a search and the phrases in double quotes. A quote that is not closed reaches to the end.
pub(super) fn parse_terms(text: &str) -> Vec<String> {
    let end = text
        .char_indices()
        .nth(MAX_QUERY_LENGTH)
        .map_or(text.len(), |(end, _)| end);
    let mut terms = Vec::new();
    for (index, piece) in text[..end].split('"').enumerate() {
        if index % 2 == 1 {
            terms.push(piece.trim().to_owned());
        } else {
            terms.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    // The index cannot be asked for NUL.
    for term in &mut terms {
        term.retain(|c| c != '\0');
    }
    terms.retain(|term| !term.is_empty());
    terms
}

pub(super) fn choose_plan(terms: &[String], matching: SearchMatching) -> SearchPlan {
    let substrings = if has_trigrams(terms) {
        SearchPlan::Trigrams
    } else {
        SearchPlan::Scan
    };
    let has_words = |term: &String| term.contains(char::is_alphanumeric);
    if terms.is_empty() {
        SearchPlan::Nothing
    } else if matching == SearchMatching::Substrings
        || terms.iter().any(|term| term.contains(is_cjk))
    {
        substrings
    } else if terms.iter().all(has_words) {
        SearchPlan::Words
    } else if matching == SearchMatching::Auto {
        // Signs are not words.
        substrings
    } else {
        SearchPlan::Nothing
    }
}

/// Whether every term is long enough for the index of pieces.
pub(super) fn has_trigrams(terms: &[String]) -> bool {
    terms.iter().all(|term| term.chars().count() >= 3)
}

/// All terms as strings of the query language, which must all match.
pub(super) fn quote_terms(terms: &[String]) -> String {
    let quoted: Vec<_> = terms
        .iter()
        .map(|term| format!("\"{}\"", term.replace('"', "\"\"")))
        .collect();
    quoted.join(" ")
}

/// The terms as a JSON list, the one that rules out most first.
pub(super) fn longest_first(terms: &[String]) -> String {
    let mut terms = terms.to_vec();
    // Signs of CJK have no case, so they are found as they are.
    terms.sort_by_key(|term| std::cmp::Reverse((term.contains(is_cjk), term.len())));
    serde_json::json!(terms).to_string()
}

/// Chinese, Japanese and Korean signs, which stand without spaces.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3000}'..='\u{303f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// The part of a text round the first term found in it, marked.
pub(super) fn snippet_around(text: &str, terms: &[String]) -> String {
    const BEFORE: usize = 40;
    const AFTER: usize = 80;
    let Some((start, term)) = terms
        .iter()
        .filter_map(|term| Some((text.find(term.as_str())?, term)))
        .min()
    else {
        return text.chars().take(BEFORE + AFTER).collect();
    };
    let end = start + term.len();
    let from = text[..start]
        .char_indices()
        .rev()
        .nth(BEFORE - 1)
        .map_or(0, |(at, _)| at);
    let to = text[end..]
        .char_indices()
        .nth(AFTER)
        .map_or(text.len(), |(at, _)| end + at);
    format!(
        "{}{}>>>{term}<<<{}{}",
        if from > 0 { "..." } else { "" },
        &text[from..start],
        &text[end..to],
        if to < text.len() { "..." } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> SearchPlan {
        choose_plan(&parse_terms(text), SearchMatching::Auto)
    }

    #[test]
    fn words_and_phrases_become_terms() {
        assert_eq!(parse_terms(" a  b "), ["a", "b"]);
        assert_eq!(parse_terms("x \"a b\" y"), ["x", "a b", "y"]);
        assert_eq!(parse_terms("a \"b c"), ["a", "b c"]);
        assert_eq!(parse_terms("\"\" \0 \""), Vec::<String>::new());
        assert_eq!(parse_terms(&"x".repeat(5000))[0].len(), MAX_QUERY_LENGTH);
    }

    #[test]
    fn nothing_that_is_typed_is_syntax() {
        assert_eq!(
            quote_terms(&parse_terms("NOT a OR (b* col:c)")),
            r#""NOT" "a" "OR" "(b*" "col:c)""#
        );
        assert_eq!(quote_terms(&["a\"b".into()]), r#""a""b""#);
    }

    #[test]
    fn the_index_follows_from_the_terms() {
        assert_eq!(planned(""), SearchPlan::Nothing);
        assert_eq!(planned("deploy it"), SearchPlan::Words);
        assert_eq!(planned("大别山项目"), SearchPlan::Trigrams);
        assert_eq!(planned("广西"), SearchPlan::Scan);
        assert_eq!(planned("大别山 ok"), SearchPlan::Scan);
        assert_eq!(planned("한국어"), SearchPlan::Trigrams);
        assert_eq!(planned("=>=>"), SearchPlan::Trigrams);
        assert_eq!(planned("!"), SearchPlan::Scan);
        assert_eq!(
            choose_plan(&parse_terms("!"), SearchMatching::Words),
            SearchPlan::Nothing
        );
        assert_eq!(
            choose_plan(&parse_terms("plo"), SearchMatching::Substrings),
            SearchPlan::Trigrams
        );
    }

    #[test]
    fn a_cut_shows_the_match_and_a_little_around_it() {
        let text = format!("{}广西{}", "a".repeat(100), "b".repeat(100));
        let cut = snippet_around(&text, &["广西".into()]);
        assert_eq!(
            cut,
            format!("...{}>>>广西<<<{}...", "a".repeat(40), "b".repeat(80))
        );
        assert_eq!(snippet_around("x广", &["广".into()]), "x>>>广<<<");
        assert_eq!(snippet_around("xyz", &["广".into()]), "xyz");
    }
}
