//! The `.env` format: reading it, and changing one assignment while every other line stays.

use std::borrow::Cow;

/// The text of a file: UTF-8 with or without a byte order mark, else latin-1.
pub(super) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// The assignments in order, and the numbers of the lines that are none.
pub(super) fn parse(text: &str) -> (Vec<(String, String)>, Vec<usize>) {
    let mut pairs = Vec::new();
    let mut bad_lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match parse_assignment(line) {
            Some((name, value)) => pairs.push((name.to_owned(), unquote(value))),
            None => bad_lines.push(index + 1),
        }
    }
    (pairs, bad_lines)
}

/// Name and raw value of a line, or nothing if it is not an assignment.
fn parse_assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = match line.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => line,
    };
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    is_name(name).then_some((name, value.trim()))
}

/// Whether a name can stand before `=`. Names may hold `-` and `.`, as references may.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// A value without its quotes or its trailing comment.
fn unquote(value: &str) -> String {
    match value.chars().next() {
        Some('\'') => match value[1..].split_once('\'') {
            Some((inside, _)) => inside.to_owned(),
            None => value.to_owned(),
        },
        Some('"') => double_quoted(&value[1..]).unwrap_or_else(|| value.to_owned()),
        _ => without_comment(value).to_owned(),
    }
}

/// The text up to the closing quote, with `\n \r \t \" \\ \$` read as escapes.
fn double_quoted(rest: &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(value),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
}

/// A `#` begins a comment only after white space, so that `pass#word` stays whole.
fn without_comment(value: &str) -> &str {
    let mut previous_is_space = true;
    for (index, c) in value.char_indices() {
        if c == '#' && previous_is_space {
            return value[..index].trim_end();
        }
        previous_is_space = c.is_whitespace();
    }
    value
}

/// The text with `key` set: the last of its lines is replaced, since that is the one that counts.
pub(super) fn set_assignment(text: &str, key: &str, value: &str) -> String {
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let line = format!("{key}={}{ending}", quote(value));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(last) = lines.iter().rposition(|line| is_assignment_of(line, key)) else {
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            ending
        };
        return format!("{text}{gap}{line}");
    };
    let mut changed = lines[..last].concat();
    changed.push_str(&line);
    changed.push_str(&lines[last + 1..].concat());
    changed
}

/// The text without any line that sets `key`.
pub(super) fn remove_assignment(text: &str, key: &str) -> String {
    text.split_inclusive('\n')
        .filter(|line| !is_assignment_of(line, key))
        .collect()
}

fn is_assignment_of(line: &str, key: &str) -> bool {
    !line.trim_start().starts_with('#')
        && parse_assignment(line.trim()).is_some_and(|(name, _)| name == key)
}

/// A value on one line, in quotes only where it would be read differently without them.
fn quote(value: &str) -> String {
    let value: String = value
        .chars()
        .filter(|c| !matches!(c, '\n' | '\r'))
        .collect();
    if value.trim() == value && unquote(&value) == value {
        return value;
    }
    if !value.contains('\'') {
        return format!("'{value}'");
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value_of(line: &str) -> String {
        let (pairs, bad) = parse(line);
        assert!(bad.is_empty(), "{line}");
        assert_eq!(pairs.len(), 1, "{line}");
        pairs[0].1.clone()
    }

    #[test]
    fn every_common_spelling_is_read() {
        assert_eq!(value_of("KEY=value"), "value");
        assert_eq!(value_of("export KEY=value"), "value");
        assert_eq!(value_of("  KEY = value  "), "value");
        assert_eq!(value_of("KEY="), "");
        assert_eq!(value_of("KEY='a # b'"), "a # b");
        assert_eq!(
            value_of(r#"KEY="line\nnext \"x\" C:\\d" # note"#),
            "line\nnext \"x\" C:\\d"
        );
        assert_eq!(value_of("KEY=value # note"), "value");
        assert_eq!(value_of("KEY=pass#word"), "pass#word");
        assert_eq!(value_of("KEY=a=b"), "a=b");
        assert_eq!(value_of("KEY=\"unclosed"), "\"unclosed");
        assert_eq!(value_of("my-key.x=1"), "1");
        assert_eq!(value_of("KEY=value\r\n"), "value");
    }

    #[test]
    fn comments_are_skipped_and_nonsense_is_named_by_line() {
        let (pairs, bad) = parse("# a=b\n\nnonsense\nA=1\n=x\n2B=3\n");
        assert_eq!(pairs, [("A".to_owned(), "1".to_owned())]);
        assert_eq!(bad, [3, 5, 6]);
    }

    #[test]
    fn a_byte_order_mark_and_latin_1_are_understood() {
        assert_eq!(decode_text(b"\xEF\xBB\xBFA=1"), "A=1");
        assert_eq!(decode_text(b"A=caf\xE9"), "A=café");
    }

    #[test]
    fn setting_replaces_the_line_and_leaves_the_rest() {
        let text = "# head\nexport A=1\n\nB=2 # two\n";
        assert_eq!(set_assignment(text, "A", "x"), "# head\nA=x\n\nB=2 # two\n");
        assert_eq!(set_assignment(text, "C", "3"), format!("{text}C=3\n"));
        assert_eq!(set_assignment("A=1", "B", "2"), "A=1\nB=2\n");
        assert_eq!(set_assignment("", "B", "2"), "B=2\n");
        assert_eq!(set_assignment("A=1\r\nB=2\r\n", "A", "3"), "A=3\r\nB=2\r\n");
        assert_eq!(set_assignment("A=1\nA=2\n", "A", "3"), "A=1\nA=3\n");
        assert_eq!(set_assignment("# A=1\n", "A", "3"), "# A=1\nA=3\n");
    }

    #[test]
    fn removing_takes_every_line_of_the_key() {
        assert_eq!(
            remove_assignment("A=1\n#A=0\nAB=2\nexport A=3\n", "A"),
            "#A=0\nAB=2\n"
        );
    }

    proptest! {
        #[test]
        fn what_is_set_is_read_back_without_line_breaks(value in any::<String>()) {
            let text = set_assignment("OTHER=1\n", "KEY", &value);
            let (pairs, bad) = parse(&text);
            prop_assert!(bad.is_empty());
            let expected: String = value.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            prop_assert_eq!(pairs, vec![
                ("OTHER".to_owned(), "1".to_owned()),
                ("KEY".to_owned(), expected),
            ]);
        }
    }
}
