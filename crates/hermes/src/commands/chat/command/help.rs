//! `/help`.

use std::fmt::Write as _;

use super::{COMMANDS, Room};
use crate::chat::{
    strip,
    style::{Paint, Style},
};

pub(super) fn text(room: &Room<'_>) -> String {
    let skills = room.conversation.agent().skills().list().len();
    render(room.screen.paint(), room.screen.width(), skills)
}

fn render(paint: Paint, width: usize, skills: usize) -> String {
    let usage = |index: usize| {
        let command = &COMMANDS[index];
        format!("/{} {}", command.name, command.arguments)
            .trim_end()
            .to_owned()
    };
    // Long usages stand on a line of their own.
    let column = 28;
    let mut text = String::new();
    for (index, command) in COMMANDS.iter().enumerate() {
        let usage = usage(index);
        let shown = paint.paint(Style::bold(), &usage);
        let about = strip::cut(command.about, width.saturating_sub(column + 4));
        if usage.chars().count() <= column {
            let gap = column - usage.chars().count();
            let _ = writeln!(text, "  {shown}{} {about}", " ".repeat(gap));
        } else {
            let _ = writeln!(text, "  {shown}\n  {} {about}", " ".repeat(column));
        }
    }
    if skills > 0 {
        let _ = writeln!(
            text,
            "\n  /SKILL [TEXT] works by one of {skills} skills: `/skills` lists them."
        );
    }
    text.push_str(
        "\n  Alt-Enter or a `\\` at the end begins another line, Tab completes, Ctrl-C stops the answer;\n  \
         Ctrl-C twice or Ctrl-D on an empty line leaves.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_explained() {
        insta::assert_snapshot!(render(Paint::Plain, 100, 2), @"");
    }
}
