//! `/help`.

use std::fmt::Write as _;

use super::{COMMANDS, ChatContext};
use crate::commands::chat::rendering::{
    style::{ColourMode, Style},
    wrap,
};

pub(super) fn help_text(chat: &ChatContext<'_>) -> String {
    let skills = chat.conversation.agent().skills().list().len();
    render(chat.screen.paint(), chat.screen.width(), skills)
}

fn render(paint: ColourMode, width: usize, skills: usize) -> String {
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
        let about = wrap::truncate_line(command.about, width.saturating_sub(column + 4));
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
            "\n  /SKILL [TEXT] uses one of {skills} skills: `/skills` lists them."
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
        insta::assert_snapshot!(render(ColourMode::Plain, 100, 2), @r"
        /help                        show these commands
        /new [TITLE]                 start a new session
        /sessions                    list earlier sessions
        /resume [SESSION]            resume a session: its id, the start of its id, or its title
        /title [TEXT]                show the session's title, or set it
        /history [N]                 show the last N messages
        /undo [N]                    take back the last N turns
        /retry                       take back the last turn and run it again
        /save [FILE]                 write the conversation to a file
        /compress                    summarize the conversation so far, to free context
        /model [NAME] [--provider P] [--global]
                                     show the model, or switch to another
        /tools [enable|disable NAME] list all tools, or turn a toolset or server on or off
        /call SERVER.TOOL [JSON or key=value …]
                                     call a tool yourself; no model is needed
        /mcp [login|enable|disable NAME]
                                     show the MCP servers, log in, or switch one on or off
        /reload-mcp                  read the configuration again and restart what changed
        /skills                      list skills; `/NAME` uses one
        /cron [pause|resume|run JOB] list the scheduled jobs, or control one
        /image PATH                  show an image to the model with the next message
        /paste                       attach an image or text from the clipboard to the next message
        /copy                        copy the last answer to the clipboard
        /background TEXT             work on TEXT in a session of its own and show the answer later
        /stop                        stop the turn that runs; at the prompt, what runs in the background
        /status                      show session, model, tokens and servers
        /usage                       show tokens and cost by model
        /whoami                      show who and where you are
        /config                      show where the configuration is and what is in effect
        /verbose                     switch showing arguments and results of tools on or off
        /clear                       clear the screen
        /quit                        leave

        /SKILL [TEXT] uses one of 2 skills: `/skills` lists them.

        Alt-Enter or a `\` at the end begins another line, Tab completes, Ctrl-C stops the answer;
        Ctrl-C twice or Ctrl-D on an empty line leaves.
        ");
    }
}
