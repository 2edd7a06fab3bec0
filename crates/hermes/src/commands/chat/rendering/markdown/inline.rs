//! Emphasis, code and links inside of one line, decided character by character.
//!
//! An opening mark is believed at once, so that nothing waits for its end. Where the end never comes,
//! [`Inline::finish`] names the marks that were none, and the line is written again with them as plain characters.

use std::collections::BTreeSet;

use crate::commands::chat::rendering::style::{Attribute, Colour, Style};

/// Takes the characters that are to be shown.
pub(super) type CharSink<'a> = &'a mut dyn FnMut(char, Style);

/// One line, as far as it is known.
#[derive(Debug)]
pub(super) struct Inline {
    base: Style,
    /// How many characters were read.
    position: usize,
    /// The character before the present one.
    before: Option<char>,
    state: InlineState,
    open: Vec<OpenMark>,
    /// Positions of marks that are plain characters.
    literal: BTreeSet<usize>,
}

#[derive(Debug)]
enum InlineState {
    Text,
    /// After a backslash.
    Escape,
    /// Several of the same mark; what they mean depends on the next character.
    Run(MarkRun),
    /// Inside of code that so many backticks opened; the number read so far of those that may close it.
    Code {
        ticks: usize,
        closing: usize,
        position: usize,
    },
    /// A link, as far as it was read.
    Link(String),
}

#[derive(Debug, Clone, Copy)]
struct MarkRun {
    mark: char,
    length: usize,
    position: usize,
    before: Option<char>,
}

#[derive(Debug, Clone, Copy)]
struct OpenMark {
    mark: char,
    length: usize,
    position: usize,
}

/// A link's text and address are not waited for longer than this.
const MAX_LINK_LENGTH: usize = 1000;

impl Inline {
    pub(super) fn new(base: Style) -> Self {
        Self::with_literals(base, BTreeSet::new())
    }

    /// Marks at these positions are plain characters.
    pub(super) fn with_literals(base: Style, literal: BTreeSet<usize>) -> Self {
        Self {
            base,
            position: 0,
            before: None,
            state: InlineState::Text,
            open: Vec::new(),
            literal,
        }
    }

    /// Reads one character.
    pub(super) fn push(&mut self, character: char, sink: CharSink<'_>) {
        self.step(character, sink);
        self.position += 1;
        self.before = Some(character);
    }

    /// The end of the line. Returns the positions of marks that nothing closed.
    pub(super) fn finish(mut self, sink: CharSink<'_>) -> BTreeSet<usize> {
        let mut unclosed = BTreeSet::new();
        // What was not a link is read again from its second character on, and may end in a shorter one.
        while let InlineState::Link(text) = &mut self.state {
            let text = std::mem::take(text);
            self.state = InlineState::Text;
            self.show_link(&text, sink);
        }
        match std::mem::replace(&mut self.state, InlineState::Text) {
            InlineState::Escape => self.show('\\', sink),
            InlineState::Run(run) => self.resolve(run, None, sink),
            InlineState::Code {
                ticks,
                closing,
                position,
            } if closing != ticks => {
                unclosed.insert(position);
            }
            InlineState::Text | InlineState::Link(_) | InlineState::Code { .. } => {}
        }
        if let InlineState::Code { position, .. } = self.state {
            unclosed.insert(position);
        }
        unclosed.extend(self.open.iter().map(|mark| mark.position));
        unclosed
    }

    fn step(&mut self, character: char, sink: CharSink<'_>) {
        match std::mem::replace(&mut self.state, InlineState::Text) {
            InlineState::Text => self.text(character, sink),
            InlineState::Escape => {
                if !character.is_ascii_punctuation() {
                    self.show('\\', sink);
                }
                self.show(character, sink);
            }
            InlineState::Run(run) if run.mark == character => {
                self.state = InlineState::Run(MarkRun {
                    length: run.length + 1,
                    ..run
                });
            }
            InlineState::Run(run) => {
                self.resolve(run, Some(character), sink);
                // Code may have been opened.
                self.step(character, sink);
            }
            InlineState::Code {
                ticks,
                closing,
                position,
            } => self.code(character, ticks, closing, position, sink),
            InlineState::Link(mut text) => {
                text.push(character);
                self.link(text, sink);
            }
        }
    }

    fn text(&mut self, character: char, sink: CharSink<'_>) {
        match character {
            '\\' => self.state = InlineState::Escape,
            '[' => self.state = InlineState::Link("[".into()),
            '*' | '_' | '~' | '`' => {
                self.state = InlineState::Run(MarkRun {
                    mark: character,
                    length: 1,
                    position: self.position,
                    before: self.before,
                });
            }
            _ => self.show(character, sink),
        }
    }

    fn code(
        &mut self,
        character: char,
        ticks: usize,
        closing: usize,
        position: usize,
        sink: CharSink<'_>,
    ) {
        if character != '`' && closing == ticks {
            return self.text(character, sink);
        }
        let closing = if character == '`' {
            closing + 1
        } else {
            let style = self.code_style();
            (0..closing).for_each(|_| sink('`', style));
            sink(character, style);
            0
        };
        self.state = InlineState::Code {
            ticks,
            closing,
            position,
        };
    }

    /// Goes on with what may be a link: `[text](address)`.
    fn link(&mut self, text: String, sink: CharSink<'_>) {
        let is_open = match text.split_once(']') {
            None | Some((_, "")) => true,
            Some((_, address)) => address.starts_with('(') && !address.ends_with(')'),
        };
        if is_open && text.len() < MAX_LINK_LENGTH {
            self.state = InlineState::Link(text);
        } else {
            self.show_link(&text, sink);
        }
    }

    /// A link, or what looked like one. The address is shown: a text must not pretend to lead elsewhere.
    fn show_link(&mut self, text: &str, sink: CharSink<'_>) {
        let parts = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(')'))
            .and_then(|text| text.split_once("]("));
        let Some((name, address)) = parts else {
            // Marks inside of it mean what they always mean. The bracket itself must not begin a link again.
            let mut characters = text.chars();
            characters.next();
            self.show('[', sink);
            self.before = Some('[');
            let end = self.position + 1;
            self.position = end - text.chars().count() + 1;
            for character in characters {
                self.push(character, sink);
            }
            // The caller counts the last character.
            self.position = end - 1;
            return;
        };
        let style = self.style().with(Attribute::Underline);
        let address = address.split_whitespace().next().unwrap_or_default();
        name.chars().for_each(|character| sink(character, style));
        if name != address && !address.is_empty() {
            let faint = self.style().with(Attribute::Faint);
            format!(" ({address})")
                .chars()
                .for_each(|character| sink(character, faint));
        }
    }

    /// What a run of marks means, now that the character after it is known.
    fn resolve(&mut self, run: MarkRun, after: Option<char>, sink: CharSink<'_>) {
        if self.literal.contains(&run.position) {
            return self.show_run(run, sink);
        }
        if run.mark == '`' {
            self.state = InlineState::Code {
                ticks: run.length,
                closing: 0,
                position: run.position,
            };
            return;
        }
        if run.mark == '~' && run.length != 2 {
            return self.show_run(run, sink);
        }
        let sides = MarkSides::from_neighbours(&run, after);
        let mut left = run.length;
        while left > 0 && sides.can_close {
            let Some(length) = self.close(run.mark, left) else {
                break;
            };
            left -= length;
        }
        if sides.can_open && left <= 3 {
            while left > 0 {
                let length = left.min(2);
                self.open.push(OpenMark {
                    mark: run.mark,
                    length,
                    position: run.position,
                });
                left -= length;
            }
        }
        (0..left).for_each(|_| self.show(run.mark, sink));
    }

    /// Closes the innermost mark of this kind that is not longer. What was opened inside of it stays open, as none.
    fn close(&mut self, mark: char, longest: usize) -> Option<usize> {
        let fits = |open: &OpenMark| open.mark == mark && open.length <= longest;
        let index = self.open.iter().rposition(fits)?;
        Some(self.open.remove(index).length)
    }

    fn show_run(&mut self, run: MarkRun, sink: CharSink<'_>) {
        (0..run.length).for_each(|_| self.show(run.mark, sink));
    }

    fn show(&mut self, character: char, sink: CharSink<'_>) {
        sink(character, self.style());
    }

    fn style(&self) -> Style {
        let mut style = self.base;
        for mark in &self.open {
            style = style.with(match (mark.mark, mark.length) {
                ('~', _) => Attribute::Strike,
                (_, 2) => Attribute::Bold,
                _ => Attribute::Italic,
            });
        }
        style
    }

    fn code_style(&self) -> Style {
        self.style().coloured(Colour::Cyan)
    }
}

/// Whether a run of marks may open or close something, judged by its neighbours.
struct MarkSides {
    can_open: bool,
    can_close: bool,
}

impl MarkSides {
    fn from_neighbours(run: &MarkRun, after: Option<char>) -> Self {
        let is_space = |character: Option<char>| character.is_none_or(char::is_whitespace);
        let is_mark = |character: Option<char>| character.is_some_and(|c| c.is_ascii_punctuation());
        let leans_right =
            !is_space(after) && (!is_mark(after) || is_space(run.before) || is_mark(run.before));
        let leans_left =
            !is_space(run.before) && (!is_mark(run.before) || is_space(after) || is_mark(after));
        // Inside of words underscores are names, and a single star is a product.
        let is_strict = run.mark == '_' || run.length == 1;
        if is_strict {
            return Self {
                can_open: leans_right && (!leans_left || is_mark(run.before)),
                can_close: leans_left && (!leans_right || is_mark(after)),
            };
        }
        Self {
            can_open: leans_right,
            can_close: leans_left,
        }
    }
}

/// A whole text as styled characters.
pub(super) fn render_inline(text: &str, base: Style) -> Vec<(char, Style)> {
    let run = |literal| {
        let mut shown = Vec::new();
        let mut inline = Inline::with_literals(base, literal);
        let mut sink = |character, style| shown.push((character, style));
        for character in text.chars() {
            inline.push(character, &mut sink);
        }
        let unclosed = inline.finish(&mut sink);
        (shown, unclosed)
    };
    let (shown, unclosed) = run(BTreeSet::new());
    if unclosed.is_empty() {
        shown
    } else {
        run(unclosed).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bold in `<b>`, italic in `<i>`, code in `<c>`, underlined in `<u>`, struck in `<s>`, faint in `<f>`.
    fn tagged(text: &str) -> String {
        let plain = Style::PLAIN;
        let names = [
            ("b", Style::bold()),
            ("i", plain.with(Attribute::Italic)),
            ("bi", Style::bold().with(Attribute::Italic)),
            ("c", plain.coloured(Colour::Cyan)),
            ("bc", Style::bold().coloured(Colour::Cyan)),
            ("u", plain.with(Attribute::Underline)),
            ("s", plain.with(Attribute::Strike)),
            ("f", Style::faint()),
        ];
        let mut out = String::new();
        let mut last = "";
        for (character, style) in render_inline(text, plain) {
            let name = names
                .iter()
                .find(|(_, known)| *known == style)
                .map_or("", |(name, _)| *name);
            if name != last {
                out.push('<');
                out.push_str(name);
                out.push('>');
                last = name;
            }
            out.push(character);
        }
        out
    }

    #[test]
    fn emphasis_and_code_are_styled() {
        for (text, shown) in [
            ("a **b** c", "a <b>b<> c"),
            ("a *b* c", "a <i>b<> c"),
            ("a _b_ c", "a <i>b<> c"),
            ("a ***b*** c", "a <bi>b<> c"),
            ("a `b*c*` d", "a <c>b*c*<> d"),
            ("a ``b`c`` d", "a <c>b`c<> d"),
            ("a ~~b~~ c", "a <s>b<> c"),
            ("**a `b` c**", "<b>a <bc>b<b> c"),
            ("**a *b* c**", "<b>a <bi>b<b> c"),
            (r"a \*b\* c", "a *b* c"),
        ] {
            assert_eq!(tagged(text), shown, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_mark_stays_as_it_is() {
        for text in [
            "2 * 3 * 4",
            "a_b_c and snake_case",
            "2*3*4",
            "a ** b",
            "5 > 3 ~ 2",
            "an array[0] and [a]",
            "[a] (b)",
            r"C:\dir",
            "~/a/~b",
        ] {
            assert_eq!(tagged(text), text);
        }
    }

    #[test]
    fn a_mark_that_nothing_closes_is_a_character() {
        assert_eq!(tagged("a **b"), "a **b");
        assert_eq!(tagged("a `b"), "a `b");
        assert_eq!(tagged("it`"), "it`");
        assert_eq!(tagged("*a **b**"), "*a <b>b");
        assert_eq!(tagged("[a **b**"), "[a <b>b");
        assert_eq!(tagged("[x] **b** [y"), "[x] <b>b<> [y");
        assert_eq!(tagged("[`a` b"), "[<c>a<> b");
        assert_eq!(tagged("[a [b"), "[a [b");
        assert_eq!(tagged("a [b\\"), "a [b\\");
    }

    #[test]
    fn a_link_shows_where_it_leads() {
        assert_eq!(
            tagged("see [the guide](https://a.b/c \"title\")."),
            "see <u>the guide<f> (https://a.b/c)<>."
        );
        assert_eq!(tagged("[https://a.b](https://a.b)"), "<u>https://a.b");
    }
}
