//! Texts for Telegram: rich Markdown, and positions in UTF-16.

/// Whether a text has Chinese, Japanese or Korean signs. Some of Telegram's programs show these garbled in rich messages.
pub(super) fn has_cjk(text: &str) -> bool {
    let is_cjk = |c: char| {
        matches!(u32::from(c),
            0x1100..=0x11FF | 0x2E80..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF
            | 0xF900..=0xFAFF | 0xFF00..=0xFFEF | 0x20000..=0x3FFFF)
    };
    text.chars().any(is_cjk)
}

/// Markdown for a rich message: lines stay lines, and what looks like HTML stays text.
pub(super) fn to_rich_markdown(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut out = String::with_capacity(text.len() + lines.len() * 2);
    let mut is_code = false;
    for (index, line) in lines.iter().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        if is_code || is_fence {
            out.push_str(line);
        } else {
            push_prose(&mut out, line);
        }
        if is_fence {
            is_code = !is_code;
        }
        let Some(next) = lines.get(index + 1) else {
            break;
        };
        // A single line break is a space in rich messages, unless two spaces stand before it.
        if !is_code && !is_fence && !is_block(line) && !is_block(next) {
            out.push_str("  ");
        }
        out.push('\n');
    }
    if is_code {
        out.push_str("\n```");
    }
    out
}

/// Lines that are blocks of their own: empty ones, tables, headings, fences.
fn is_block(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('|') || line.starts_with('#') || line.starts_with("```")
}

/// A line in which tags are escaped, except within code.
fn push_prose(out: &mut String, line: &str) {
    let mut is_code = false;
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        if character == '`' && before != '\\' {
            is_code = !is_code;
        }
        let next = line[at + character.len_utf8()..].chars().next();
        let is_tag = character == '<'
            && before != '\\'
            && next.is_some_and(|c| c.is_ascii_alphabetic() || "/!?".contains(c));
        if is_tag && !is_code {
            out.push('\\');
        }
        out.push(character);
        before = character;
    }
}

/// The byte position of a UTF-16 offset; the end where it is behind it.
pub(super) fn byte_position(text: &str, utf16_offset: usize) -> usize {
    let mut units = 0;
    for (at, character) in text.char_indices() {
        if units >= utf16_offset {
            return at;
        }
        units += character.len_utf16();
    }
    text.len()
}

/// The part of a text that an entity covers.
pub(super) fn utf16_slice(text: &str, offset: usize, length: usize) -> &str {
    let start = byte_position(text, offset);
    let end = byte_position(text, offset.saturating_add(length));
    text.get(start..end).unwrap_or_default()
}

/// The end of a text, within so many UTF-16 units.
pub(super) fn utf16_tail(text: &str, max: usize) -> &str {
    let total = text.encode_utf16().count();
    if total <= max {
        return text;
    }
    &text[byte_position(text, total - max)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_in_rich_messages() {
        assert_eq!(to_rich_markdown("a\nb\n\nc"), "a  \nb\n\nc");
        assert_eq!(
            to_rich_markdown("# t\n|a|b|\n|-|-|\n```rs\nx\ny\n```\nz"),
            "# t\n|a|b|\n|-|-|\n```rs\nx\ny\n```\nz"
        );
        assert_eq!(to_rich_markdown("```\nopen"), "```\nopen\n```");
    }

    #[test]
    fn tags_stay_text_in_rich_messages() {
        assert_eq!(
            to_rich_markdown("Vec<String> and `Vec<u8>`, 1 < 2"),
            "Vec\\<String> and `Vec<u8>`, 1 < 2"
        );
    }

    #[test]
    fn positions_count_utf16() {
        let text = "😀 @bot x";
        assert_eq!(utf16_slice(text, 3, 4), "@bot");
        assert_eq!(utf16_slice(text, 30, 4), "");
        assert_eq!(utf16_tail("a😀b", 3), "😀b");
        assert_eq!(utf16_tail("ab", 3), "ab");
    }

    #[test]
    fn cjk_is_found() {
        assert!(has_cjk("早") && has_cjk("カ") && has_cjk("한"));
        assert!(!has_cjk("é😀 plain"));
    }
}
