//! What stands before the line, and when it is complete.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use reedline::{
    Color, Highlighter, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus,
    StyledText, ValidationResult, Validator,
};

use crate::commands::chat::rendering::style::ColourMode;

/// The mark before the line.
pub(super) struct LinePrompt {
    paint: ColourMode,
}

impl LinePrompt {
    pub(super) fn new(paint: ColourMode) -> Self {
        Self { paint }
    }

    fn colour(&self, colour: Color) -> Color {
        match self.paint {
            ColourMode::Coloured => colour,
            ColourMode::Plain => Color::Default,
        }
    }
}

impl Prompt for LinePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing like ",
        };
        Cow::Owned(format!("(search: {failing}{}) ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        self.colour(Color::Cyan)
    }

    fn get_indicator_color(&self) -> Color {
        self.colour(Color::Cyan)
    }

    fn get_prompt_multiline_color(&self) -> Color {
        self.colour(Color::Cyan)
    }
}

/// How the text looks while it is typed. It also sees whether there is any.
pub(super) struct InputHighlighter {
    paint: ColourMode,
    has_text: Arc<AtomicBool>,
}

impl InputHighlighter {
    pub(super) fn new(paint: ColourMode, has_text: Arc<AtomicBool>) -> Self {
        Self { paint, has_text }
    }
}

impl Highlighter for InputHighlighter {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.has_text.store(!line.is_empty(), Ordering::Relaxed);
        let mut text = StyledText::new();
        let command = line.find(char::is_whitespace).unwrap_or(line.len());
        let is_command = line.starts_with('/') && self.paint == ColourMode::Coloured;
        let (command, rest) = line.split_at(if is_command { command } else { 0 });
        text.push((Color::Cyan.normal(), command.to_owned()));
        text.push((Color::Default.normal(), rest.to_owned()));
        text
    }
}

/// A line that ends with a stroke goes on.
pub(super) struct ContinuationValidator;

impl Validator for ContinuationValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// The text without the strokes that only said that it goes on.
pub(super) fn join_continued_lines(text: &str) -> String {
    text.replace("\\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stroke_at_the_end_of_a_line_is_not_part_of_it() {
        assert_eq!(
            join_continued_lines("one\\\ntwo\\\nthree"),
            "one\ntwo\nthree"
        );
        assert_eq!(join_continued_lines(r"C:\dir"), r"C:\dir");
        assert!(matches!(
            ContinuationValidator.validate("a\\"),
            ValidationResult::Incomplete
        ));
        assert!(matches!(
            ContinuationValidator.validate("a"),
            ValidationResult::Complete
        ));
    }
}
