//! `/help` and `/commands`, in pages.

use super::{
    context::{ChatCommandContext, CommandError},
    execute::{CommandReply, command_button},
    table::{COMMANDS, ChatCommand},
    texts,
};

const LINES_PER_PAGE: usize = 12;

pub(super) fn help(
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let lines: Vec<String> = COMMANDS
        .iter()
        .filter(|command| context.may_use(command.word))
        .map(command_line)
        .collect();
    page(
        "help",
        "Write a message, or use a command:",
        &lines,
        arguments,
    )
}

/// The commands and the skills.
pub(super) async fn commands(
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let skills = context.skills().await?;
    let of_skills = skills.iter().map(|skill| {
        format!(
            "`/{}` {}",
            skill.name,
            texts::first_line(&skill.description, 80)
        )
    });
    let lines: Vec<String> = COMMANDS
        .iter()
        .filter(|command| context.may_use(command.word))
        .map(command_line)
        .chain(of_skills)
        .collect();
    page("commands", "Commands and skills:", &lines, arguments)
}

fn command_line(command: &ChatCommand) -> String {
    format!("`{}` {}", command.usage_line(), command.description)
}

fn page(
    command: &str,
    heading: &str,
    lines: &[String],
    number: &str,
) -> Result<CommandReply, CommandError> {
    let pages: Vec<&[String]> = lines.chunks(LINES_PER_PAGE).collect();
    let number = match number {
        "" => 1,
        number => number
            .parse()
            .ok()
            .filter(|number| (1..=pages.len()).contains(number))
            .ok_or_else(|| CommandError::new(format!("There are pages 1 to {}.", pages.len())))?,
    };
    let shown = pages.get(number - 1).copied().unwrap_or_default();
    let mut text = format!("{heading}\n{}", shown.join("\n"));
    let mut buttons = Vec::new();
    if pages.len() > 1 {
        let next = if number < pages.len() {
            buttons.push(command_button("More", command, &(number + 1).to_string()));
            format!("; `/{command} {}` shows the next one", number + 1)
        } else {
            String::new()
        };
        text = format!("{text}\n\nPage {number} of {}{next}.", pages.len());
    }
    Ok(CommandReply {
        text,
        buttons: buttons.into_iter().map(|button| vec![button]).collect(),
    })
}
