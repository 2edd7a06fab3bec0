//! Commands that change permissions.

use super::Invocation;
use crate::approval::command::shell::Direction;

/// `chmod 777`, `chmod o+w`
pub(super) fn makes_world_writable(run: &Invocation<'_>) -> bool {
    run.name == "chmod"
        && run
            .operands()
            .next()
            .is_some_and(|mode| mode.split(',').any(lets_all_write))
}

fn lets_all_write(mode: &str) -> bool {
    if mode.chars().all(|c| c.is_digit(8)) {
        return mode.len() >= 3 && mode.ends_with(['2', '3', '6', '7']);
    }
    let Some(at) = mode.find(['+', '=']) else {
        return false;
    };
    let (who, what) = mode.split_at(at);
    who.contains(['o', 'a']) && what.contains('w')
}

/// `hermes mcp tools NAME --approve`
pub(super) fn approves_tool(run: &Invocation<'_>) -> bool {
    let mut arguments = run.arguments.iter();
    run.name == "hermes"
        && arguments.any(|word| word.text == "--approve" || word.text.starts_with("--approve="))
}

/// `echo password | sudo -S`
pub(super) fn reads_sudo_password(run: &Invocation<'_>) -> bool {
    let asks_stdin = run
        .arguments
        .iter()
        .take_while(|word| word.text.starts_with('-'))
        .any(|word| {
            word.text == "--stdin" || (!word.text.starts_with("--") && word.text.contains('S'))
        });
    let command = run.command;
    let reads = command.reads_pipe
        || command.input.is_some()
        || command
            .redirects
            .iter()
            .any(|redirect| redirect.direction == Direction::In);
    run.name == "sudo" && asks_stdin && reads
}
