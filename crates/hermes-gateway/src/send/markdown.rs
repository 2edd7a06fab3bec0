//! Converts Markdown to the dialects of platforms.
//!
//! Supported: code, bold, italic, strikethrough, links, headings, quotes. Everything else is text, and every
//! special character of the platform is escaped.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Telegram's MarkdownV2.
    Telegram,
    Slack,
}

/// Longer words after a fence are not a language.
const MAX_LANGUAGE_CHARS: usize = 30;

/// The language of a line that opens or closes a block of code; empty where it names none.
pub(super) fn fence_language(line: &str) -> Option<&str> {
    let after = line.trim_start().strip_prefix("```")?;
    // "```x```" is inline code.
    if after.contains('`') {
        return None;
    }
    let language = after.split_whitespace().next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_+-#.".contains(c);
    let is_language = language.len() <= MAX_LANGUAGE_CHARS && language.chars().all(is_name);
    Some(if is_language { language } else { "" })
}

/// Whether a line closes an open code block. Platforms close it at any fence.
pub(super) fn closes_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

pub(crate) fn render_markdown(text: &str, dialect: Dialect) -> String {
    let mut renderer = MarkdownRenderer {
        dialect,
        out: String::with_capacity(text.len() + text.len() / 8),
    };
    let mut is_code = false;
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            renderer.out.push('\n');
        }
        if is_code && closes_fence(line) {
            is_code = false;
            renderer.out.push_str("```");
            let after = line.trim_start().trim_start_matches('`');
            renderer.render_inline(after, SpanContext::default());
        } else if is_code {
            renderer.code(line);
        } else if let Some(language) = fence_language(line) {
            is_code = true;
            renderer.out.push_str("```");
            if dialect == Dialect::Telegram {
                renderer.out.push_str(language);
            }
        } else {
            renderer.render_line(line);
        }
    }
    if is_code {
        renderer.out.push_str("\n```");
    }
    renderer.out
}

/// The enclosing styles; Telegram rejects bold within bold and italic within italic.
#[derive(Debug, Clone, Copy, Default)]
struct SpanContext {
    is_bold: bool,
    is_italic: bool,
}

/// A styled span at the start of the rest of a line.
enum Span<'t> {
    Code(&'t str),
    Bold(&'t str),
    Italic(&'t str),
    Struck(&'t str),
    Spoiler(&'t str),
    Link {
        label: &'t str,
        address: &'t str,
    },
    /// One of Slack's own: `<@U123>`, `<!here>`, `<https://…|…>`.
    Token(&'t str),
}

struct MarkdownRenderer {
    dialect: Dialect,
    out: String,
}

impl MarkdownRenderer {
    fn render_line(&mut self, line: &str) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if (1..=6).contains(&level) && title.starts_with(' ') && !title.trim().is_empty() {
            self.out.push('*');
            let outer = SpanContext {
                is_bold: true,
                ..SpanContext::default()
            };
            self.render_inline(title.trim(), outer);
            self.out.push('*');
        } else if let Some(quoted) = line.strip_prefix('>') {
            self.out.push('>');
            self.render_inline(quoted, SpanContext::default());
        } else {
            self.render_inline(line, SpanContext::default());
        }
    }

    fn render_inline(&mut self, text: &str, outer: SpanContext) {
        let mut rest = text;
        let mut before = None;
        while let Some(character) = rest.chars().next() {
            let after_character = &rest[character.len_utf8()..];
            if let Some((span, length)) = self.span(rest, before, outer) {
                self.write_span(&span, outer);
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
            } else if let Some(escaped) = parse_escape(rest) {
                self.text(escaped);
                before = Some(escaped);
                rest = &rest[1 + escaped.len_utf8()..];
            } else {
                self.text(character);
                before = Some(character);
                rest = after_character;
            }
        }
    }

    /// The span that starts here, and its length in bytes.
    fn span<'t>(
        &self,
        rest: &'t str,
        before: Option<char>,
        outer: SpanContext,
    ) -> Option<(Span<'t>, usize)> {
        let is_in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match rest.as_bytes()[0] {
            b'`' => parse_code(rest),
            b'*' if rest.starts_with("**") => {
                let inner = between(rest, "**")?;
                Some((Span::Bold(inner), inner.len() + 4))
            }
            // Within words, as in `snake_case` and `2*3*4`, they are not markup.
            mark @ (b'*' | b'_') if !is_in_word && !outer.is_italic => {
                let inner = between_single(rest, char::from(mark))?;
                let next = rest[inner.len() + 2..].chars().next();
                let ends_word = next.is_none_or(|c| !c.is_alphanumeric());
                ends_word.then_some((Span::Italic(inner), inner.len() + 2))
            }
            b'~' => {
                let inner = between(rest, "~~")?;
                Some((Span::Struck(inner), inner.len() + 4))
            }
            b'|' if self.dialect == Dialect::Telegram => {
                let inner = between(rest, "||")?;
                Some((Span::Spoiler(inner), inner.len() + 4))
            }
            b'[' => parse_link(rest),
            b'<' if self.dialect == Dialect::Slack => parse_token(rest),
            _ => None,
        }
        // Two underscores in a row would underline on Telegram.
        .filter(|(span, _)| !(matches!(span, Span::Italic(_)) && self.out.ends_with('_')))
    }

    fn write_span(&mut self, span: &Span, outer: SpanContext) {
        match *span {
            Span::Code(code) => {
                self.out.push('`');
                self.code(code);
                self.out.push('`');
            }
            Span::Bold(inner) if outer.is_bold => self.render_inline(inner, outer),
            Span::Bold(inner) => {
                let outer = SpanContext {
                    is_bold: true,
                    ..outer
                };
                self.wrapped("*", inner, outer);
            }
            Span::Italic(inner) => {
                let outer = SpanContext {
                    is_italic: true,
                    ..outer
                };
                self.wrapped("_", inner, outer);
            }
            Span::Struck(inner) => self.wrapped("~", inner, outer),
            Span::Spoiler(inner) => self.wrapped("||", inner, outer),
            Span::Token(token) => self.out.push_str(token),
            Span::Link { label, address } => self.link(label, address, outer),
        }
    }

    fn wrapped(&mut self, mark: &str, inner: &str, outer: SpanContext) {
        self.out.push_str(mark);
        self.render_inline(inner, outer);
        self.out.push_str(mark);
    }

    fn link(&mut self, label: &str, address: &str, outer: SpanContext) {
        match self.dialect {
            Dialect::Telegram => {
                self.out.push('[');
                self.render_inline(label, outer);
                self.out.push_str("](");
                for character in address.chars() {
                    if matches!(character, ')' | '\\') {
                        self.out.push('\\');
                    }
                    self.out.push(character);
                }
                self.out.push(')');
            }
            Dialect::Slack => {
                self.out.push('<');
                address.chars().for_each(|character| self.text(character));
                self.out.push('|');
                label.chars().for_each(|character| self.text(character));
                self.out.push('>');
            }
        }
    }

    fn text(&mut self, character: char) {
        match (self.dialect, character) {
            (Dialect::Telegram, c) if "_*[]()~`>#+-=|{}.!\\".contains(c) => {
                self.out.push('\\');
                self.out.push(c);
            }
            (Dialect::Slack, '&') => self.out.push_str("&amp;"),
            (Dialect::Slack, '<') => self.out.push_str("&lt;"),
            (Dialect::Slack, '>') => self.out.push_str("&gt;"),
            (_, c) => self.out.push(c),
        }
    }

    fn code(&mut self, code: &str) {
        for character in code.chars() {
            match (self.dialect, character) {
                (Dialect::Telegram, '`' | '\\') => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                (Dialect::Telegram, _) => self.out.push(character),
                (Dialect::Slack, _) => self.text(character),
            }
        }
    }
}

fn parse_escape(rest: &str) -> Option<char> {
    let next = rest.strip_prefix('\\')?.chars().next()?;
    next.is_ascii_punctuation().then_some(next)
}

fn parse_code(rest: &str) -> Option<(Span<'_>, usize)> {
    let inner = rest.trim_start_matches('`');
    let mark = &rest[..rest.len() - inner.len()];
    let end = inner.find(mark)?;
    let is_code = end > 0 && !inner[end + mark.len()..].starts_with('`');
    is_code.then_some((Span::Code(&inner[..end]), end + 2 * mark.len()))
}

/// The text between two marks, if it does not start or end with a space.
fn between<'t>(rest: &'t str, mark: &str) -> Option<&'t str> {
    let inner = rest.strip_prefix(mark)?;
    let inner = &inner[..inner.find(mark)?];
    is_tight(inner).then_some(inner)
}

/// The text between two single marks; doubled ones are skipped.
fn between_single(rest: &str, mark: char) -> Option<&str> {
    let inner = &rest[1..];
    let mut previous = mark;
    let mut characters = inner.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        if character == mark && previous != mark && next != Some(mark) {
            let inner = &inner[..index];
            return is_tight(inner).then_some(inner);
        }
        previous = character;
    }
    None
}

fn is_tight(inner: &str) -> bool {
    !inner.is_empty()
        && !inner.starts_with(char::is_whitespace)
        && !inner.ends_with(char::is_whitespace)
        && !inner.ends_with('\\')
}

fn parse_link(rest: &str) -> Option<(Span<'_>, usize)> {
    let (label, after) = rest[1..].split_once("](")?;
    let mut depth = 0;
    let end = after.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0
    })?;
    let address = &after[..end];
    let is_link = !label.trim().is_empty()
        && !label.contains([']', '['])
        && !address.is_empty()
        && !address.contains(char::is_whitespace);
    is_link.then_some((Span::Link { label, address }, 1 + label.len() + 2 + end + 1))
}

fn parse_token(rest: &str) -> Option<(Span<'_>, usize)> {
    let end = rest.find('>')?;
    let is_token = ["@", "#", "!", "http://", "https://", "mailto:"]
        .iter()
        .any(|beginning| rest[1..].starts_with(beginning))
        && !rest[1..end].contains('<');
    is_token.then_some((Span::Token(&rest[..=end]), end + 1))
}

#[cfg(test)]
mod tests;
