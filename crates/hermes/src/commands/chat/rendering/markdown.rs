//! Markdown on a terminal, written as it arrives.
//!
//! Most characters are written the moment they come. Waited for are only the first few of a line, which say what the
//! line is; a mark until the character after it; and a table until its end, since its columns depend on every row.
//! What is on the screen stays where it is: `termimad` and the like lay out a whole text, which would mean to draw it
//! again with every word.

mod code;
mod inline;
mod line;
mod table;

use code::CodeHighlighter;
use inline::Inline;
use line::LineOpening;

use super::{
    style::{Attribute, Colour, ColourMode, Style},
    wrap::WordWrap,
};

/// A text that is being written.
#[derive(Debug)]
pub(crate) struct Markdown {
    columns: usize,
    /// Lines of the terminal: a longer line is not written again.
    rows: usize,
    block: BlockState,
    line: LineState,
    wrap: WordWrap,
}

#[derive(Debug)]
enum BlockState {
    Text,
    /// Inside of a fence of so many characters.
    Code {
        fence: String,
        code: CodeHighlighter,
    },
    Table(Vec<String>),
}

/// How far the present line is known.
#[derive(Debug)]
enum LineState {
    /// Its first characters, until they say what it is.
    Opening(String),
    /// Text after the opening.
    Inline(WrittenLine),
    /// Waits for its end.
    Whole(String),
    /// In a block of code.
    Code,
}

/// A line of text, and what is needed to write it again.
#[derive(Debug)]
struct WrittenLine {
    inline: Inline,
    text: String,
    base: Style,
    begins: WordWrap,
}

/// Longer tables are shown in parts.
const MAX_TABLE_ROWS: usize = 200;

impl Markdown {
    /// For a terminal of this size.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            block: BlockState::Text,
            line: LineState::Opening(String::new()),
            wrap: WordWrap::new(columns),
        }
    }

    /// The terminal has another size; it counts from the next line on.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
        if self.wrap.column() == 0 {
            self.wrap = WordWrap::new(columns);
        }
    }

    /// Takes more of the text and appends what is to be written.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        for character in text.chars() {
            if character == '\n' {
                self.end_line(out);
            } else {
                self.push_char(character, out);
            }
        }
    }

    /// The end of the text; the cursor is at the beginning of a line then.
    pub(crate) fn finish(&mut self, out: &mut String) {
        let is_empty = matches!(&self.line, LineState::Opening(held) if held.is_empty());
        if !is_empty || self.wrap.column() > 0 {
            self.end_line(out);
        }
        self.end_table(out);
        *self = Self::new(self.columns, self.rows);
    }

    /// How many rows of a table wait for its end.
    pub(crate) fn waiting_rows(&self) -> Option<usize> {
        match &self.block {
            BlockState::Table(rows) => Some(rows.len()),
            _ => None,
        }
    }

    /// Whether the cursor is at the beginning of a line.
    pub(crate) fn is_at_line_start(&self) -> bool {
        self.wrap.column() == 0
    }

    fn push_char(&mut self, character: char, out: &mut String) {
        let Self {
            wrap, line, block, ..
        } = self;
        match line {
            LineState::Whole(text) => text.push(character),
            LineState::Inline(written) => {
                written.text.push(character);
                let mut sink = |character, style| wrap.put(character, style, out);
                written.inline.push(character, &mut sink);
            }
            LineState::Code => {
                if let BlockState::Code { code, .. } = block {
                    code.push(character, &mut |character, style| {
                        put_code(wrap, character, style, out);
                    });
                }
            }
            LineState::Opening(held) => {
                held.push(character);
                let held = held.clone();
                match &self.block {
                    BlockState::Code { fence, .. } if line::may_close_fence(&held, fence) => {}
                    BlockState::Code { .. } => self.begin_code_line(&held, out),
                    _ => self.open_line(&held, out),
                }
            }
        }
    }

    /// Looks at the first characters of a line.
    fn open_line(&mut self, held: &str, out: &mut String) {
        let opening = line::classify_opening(held);
        if !matches!(opening, LineOpening::Undecided | LineOpening::Row) {
            self.end_table(out);
        }
        let indent = held.len() - held.trim_start().len();
        let marker = |wrap: &mut WordWrap, text: &str, style: Style, out: &mut String| {
            text.chars().for_each(|c| wrap.put(c, style, out));
        };
        let rest = match opening {
            LineOpening::Undecided => return,
            LineOpening::Row | LineOpening::Fence => {
                self.line = LineState::Whole(held.to_owned());
                return;
            }
            LineOpening::Paragraph => {
                marker(&mut self.wrap, &held[..indent], Style::PLAIN, out);
                self.wrap.set_indent();
                self.begin_text(&held[indent..], Style::PLAIN, out);
                return;
            }
            LineOpening::Heading { level, length } => {
                let style = match level {
                    1 => Style::bold().with(Attribute::Underline),
                    2 | 3 => Style::bold(),
                    _ => Style::bold().with(Attribute::Italic),
                };
                self.begin_text(&held[length..], style, out);
                return;
            }
            LineOpening::Quote { length } => {
                marker(&mut self.wrap, &held[..indent], Style::PLAIN, out);
                marker(&mut self.wrap, "│ ", Style::faint(), out);
                self.wrap.set_indent();
                // What is quoted may be a list.
                self.line = LineState::Opening(String::new());
                held[length..].to_owned()
            }
            LineOpening::Bullet { length } => {
                marker(&mut self.wrap, &held[..indent], Style::PLAIN, out);
                let style = Style::PLAIN.coloured(Colour::Cyan);
                marker(&mut self.wrap, "• ", style, out);
                self.wrap.set_indent();
                self.begin_text(&held[length..], Style::PLAIN, out);
                return;
            }
            LineOpening::Number { length } => {
                marker(&mut self.wrap, &held[..indent], Style::PLAIN, out);
                let style = Style::PLAIN.coloured(Colour::Cyan);
                marker(&mut self.wrap, &held[indent..length], style, out);
                self.wrap.set_indent();
                self.begin_text(&held[length..], Style::PLAIN, out);
                return;
            }
        };
        rest.chars()
            .for_each(|character| self.push_char(character, out));
    }

    fn begin_text(&mut self, text: &str, base: Style, out: &mut String) {
        self.line = LineState::Inline(WrittenLine {
            inline: Inline::new(base),
            text: String::new(),
            base,
            begins: self.wrap.clone(),
        });
        text.chars()
            .for_each(|character| self.push_char(character, out));
    }

    fn begin_code_line(&mut self, held: &str, out: &mut String) {
        self.line = LineState::Code;
        held.chars()
            .for_each(|character| self.push_char(character, out));
    }

    fn end_line(&mut self, out: &mut String) {
        match std::mem::replace(&mut self.line, LineState::Opening(String::new())) {
            LineState::Inline(written) => {
                self.end_text(written, out);
                self.wrap.end_line(self.columns, out);
            }
            LineState::Whole(text) => self.end_whole(text, out),
            LineState::Code => {
                self.end_code(out);
                self.wrap.end_line(self.columns, out);
            }
            LineState::Opening(held) => self.end_opening(&held, out),
        }
    }

    /// Writes the line again if it had marks that were none.
    fn end_text(&mut self, written: WrittenLine, out: &mut String) {
        let wrap = &mut self.wrap;
        let unclosed = written
            .inline
            .finish(&mut |character, style| wrap.put(character, style, out));
        let height = wrap.rows() - written.begins.rows();
        if unclosed.is_empty() || height + 1 >= self.rows {
            return;
        }
        wrap.rewind_to(&written.begins, out);
        let mut inline = Inline::with_literals(written.base, unclosed);
        let mut sink = |character, style| wrap.put(character, style, out);
        for character in written.text.chars() {
            inline.push(character, &mut sink);
        }
        inline.finish(&mut sink);
    }

    fn end_code(&mut self, out: &mut String) {
        let Self { wrap, block, .. } = self;
        if let BlockState::Code { code, .. } = block {
            code.end_line(&mut |character, style| put_code(wrap, character, style, out));
        }
    }

    /// A line that was waited for as a whole: a row of a table or a fence.
    fn end_whole(&mut self, text: String, out: &mut String) {
        if let Some((fence, language)) = line::parse_fence(&text) {
            self.block = BlockState::Code {
                code: CodeHighlighter::new(language),
                fence: fence.to_owned(),
            };
            return self.write_faint_line(text.trim_end(), out);
        }
        if text.trim_start().starts_with('|') {
            match &mut self.block {
                BlockState::Table(rows) => rows.push(text),
                _ => self.block = BlockState::Table(vec![text]),
            }
            if self.waiting_rows() > Some(MAX_TABLE_ROWS) {
                self.end_table(out);
            }
            return;
        }
        self.begin_text(&text, Style::PLAIN, out);
        self.end_line(out);
    }

    /// A line so short that its opening is all there is.
    fn end_opening(&mut self, held: &str, out: &mut String) {
        if let BlockState::Code { fence, .. } = &self.block {
            if line::closes_fence(held, fence) {
                self.block = BlockState::Text;
                return self.write_faint_line(held.trim_end(), out);
            }
            if !held.is_empty() {
                self.begin_code_line(held, out);
                return self.end_line(out);
            }
            self.line = LineState::Opening(String::new());
            return self.wrap.end_line(self.columns, out);
        }
        self.end_table(out);
        if line::is_rule(held) {
            let width = self.wrap.width() - self.wrap.column().min(self.wrap.width());
            return self.write_faint_line(&"─".repeat(width.min(80)), out);
        }
        if line::parse_fence(held).is_some() {
            return self.end_whole(held.to_owned(), out);
        }
        if !held.trim().is_empty() {
            self.begin_text(held, Style::PLAIN, out);
            return self.end_line(out);
        }
        self.wrap.end_line(self.columns, out);
    }

    fn end_table(&mut self, out: &mut String) {
        let BlockState::Table(rows) = &self.block else {
            return;
        };
        let width = self.columns.saturating_sub(1);
        match table::render_table(rows, width) {
            Some(table) => out.push_str(&table),
            None => {
                for row in rows {
                    let mut wrap = WordWrap::new(self.columns);
                    for (character, style) in inline::render_inline(row, Style::PLAIN) {
                        wrap.put(character, style, out);
                    }
                    wrap.end_line(self.columns, out);
                }
            }
        }
        self.block = BlockState::Text;
    }

    fn write_faint_line(&mut self, text: &str, out: &mut String) {
        out.push_str(&ColourMode::Coloured.paint(Style::faint(), text));
        self.wrap.end_line(self.columns, out);
    }
}

/// Code is not broken between words: it can be copied from the screen as it is.
fn put_code(wrap: &mut WordWrap, character: char, style: Style, out: &mut String) {
    wrap.put_unbroken(character, style, out);
}

#[cfg(test)]
mod tests;
