//! How characters look: what is set for each, and the sequence that sets it.

use std::fmt::Write;

/// The look of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    attributes: u8,
    colour: Colour,
}

/// One of the terminal's own colours, so that it fits the person's theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Colour {
    #[default]
    TerminalDefault,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
}

/// Something besides the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Bold = 1,
    Faint = 2,
    Italic = 3,
    Underline = 4,
    Strike = 9,
}

const ATTRIBUTES: [Attribute; 5] = [
    Attribute::Bold,
    Attribute::Faint,
    Attribute::Italic,
    Attribute::Underline,
    Attribute::Strike,
];

impl Style {
    /// Nothing special.
    pub(crate) const PLAIN: Self = Self {
        attributes: 0,
        colour: Colour::TerminalDefault,
    };

    pub(crate) fn with(mut self, attribute: Attribute) -> Self {
        self.attributes |= Self::bit(attribute);
        self
    }

    pub(crate) fn coloured(mut self, colour: Colour) -> Self {
        self.colour = colour;
        self
    }

    pub(crate) fn faint() -> Self {
        Self::PLAIN.with(Attribute::Faint)
    }

    pub(crate) fn bold() -> Self {
        Self::PLAIN.with(Attribute::Bold)
    }

    fn bit(attribute: Attribute) -> u8 {
        match attribute {
            Attribute::Bold => 1,
            Attribute::Faint => 2,
            Attribute::Italic => 4,
            Attribute::Underline => 8,
            Attribute::Strike => 16,
        }
    }

    /// Appends the sequence that sets exactly this.
    pub(crate) fn write_sequence(self, out: &mut String) {
        out.push_str("\x1b[0");
        for attribute in ATTRIBUTES {
            if self.attributes & Self::bit(attribute) != 0 {
                let _ = write!(out, ";{}", attribute as u8);
            }
        }
        let colour = match self.colour {
            Colour::TerminalDefault => None,
            Colour::Red => Some(31),
            Colour::Green => Some(32),
            Colour::Yellow => Some(33),
            Colour::Magenta => Some(35),
            Colour::Cyan => Some(36),
        };
        if let Some(colour) = colour {
            let _ = write!(out, ";{colour}");
        }
        out.push('m');
    }
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColourMode {
    /// For a terminal.
    Coloured,
    /// As it is.
    Plain,
}

impl ColourMode {
    /// A piece of text in a style.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self == Self::Plain || style == Style::PLAIN || text.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len() + 12);
        style.write_sequence(&mut out);
        out.push_str(text);
        out.push_str("\x1b[0m");
        out
    }
}

/// The same text without the colours that [`Style::write_sequence`] wrote; bold, italic and the like stay.
pub(crate) fn strip_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[0") {
        let (before, sequence) = rest.split_at(at);
        out.push_str(before);
        let end = sequence.find('m').map_or(sequence.len(), |end| end + 1);
        let (sequence, after) = sequence.split_at(end);
        let codes = sequence.trim_start_matches("\x1b[").trim_end_matches('m');
        let is_colour = |code: &&str| code.len() == 2 && code.starts_with('3');
        let kept: Vec<&str> = codes.split(';').filter(|code| !is_colour(code)).collect();
        let _ = write!(out, "\x1b[{}m", kept.join(";"));
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_sets_all_it_has_and_nothing_else() {
        let mut out = String::new();
        Style::bold()
            .with(Attribute::Strike)
            .coloured(Colour::Cyan)
            .write_sequence(&mut out);
        assert_eq!(out, "\x1b[0;1;9;36m");
        assert_eq!(ColourMode::Coloured.paint(Style::PLAIN, "a"), "a");
        assert_eq!(
            ColourMode::Coloured.paint(Style::faint(), "a"),
            "\x1b[0;2ma\x1b[0m"
        );
        assert_eq!(ColourMode::Plain.paint(Style::faint(), "a"), "a");
    }

    #[test]
    fn colours_go_and_everything_else_stays() {
        let mut text = String::from("a");
        Style::bold()
            .coloured(Colour::Cyan)
            .write_sequence(&mut text);
        text.push('b');
        Style::PLAIN.coloured(Colour::Red).write_sequence(&mut text);
        text.push_str("c\x1b[0m\n");
        assert_eq!(strip_colours(&text), "a\x1b[0;1mb\x1b[0mc\x1b[0m\n");
    }
}
