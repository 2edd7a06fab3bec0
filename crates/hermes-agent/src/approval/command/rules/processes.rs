//! Commands that end processes, services or the machine, or change permissions.

use super::Invocation;
use crate::approval::command::shell::Direction;

/// `:(){ :|:& };:` under any name.
pub(super) fn is_fork_bomb(run: &Invocation<'_>) -> bool {
    let command = run.command;
    let calls_itself = command.function.as_deref() == Some(run.name);
    calls_itself && (command.reads_pipe || command.is_background)
}

/// `kill -9 -1`
pub(super) fn kills_all(run: &Invocation<'_>) -> bool {
    if run.name == "killall5" {
        return true;
    }
    let words: Vec<&str> = run
        .arguments
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    run.name == "kill"
        && match words.as_slice() {
            ["-1"] => true,
            // The first is the signal, or `--`.
            ["-s" | "-n", _, targets @ ..] | [_, targets @ ..] => targets.contains(&"-1"),
            [] => false,
        }
}

/// `shutdown`, `reboot` and the like.
pub(super) fn shuts_down(run: &Invocation<'_>) -> bool {
    let first = run.operands().next();
    let only_asks = run
        .arguments
        .iter()
        .any(|word| matches!(&*word.text, "-c" | "--help" | "--version" | "--show"));
    let triggers = run
        .command
        .redirects
        .iter()
        .any(|redirect| redirect.target == "/proc/sysrq-trigger");
    match run.name {
        "shutdown" | "reboot" | "halt" | "poweroff" => !only_asks,
        "init" | "telinit" => matches!(first, Some("0" | "6")),
        "systemctl" | "loginctl" => matches!(
            first,
            Some("poweroff" | "reboot" | "halt" | "kexec" | "soft-reboot")
        ),
        "tee" => first == Some("/proc/sysrq-trigger"),
        _ => triggers,
    }
}

/// `systemctl stop` and the like.
pub(super) fn stops_service(run: &Invocation<'_>) -> bool {
    let words: Vec<&str> = run.operands().collect();
    let ends = |verb: Option<&&str>| {
        verb.is_some_and(|verb| {
            matches!(
                *verb,
                "stop" | "restart" | "disable" | "mask" | "kill" | "isolate"
            )
        })
    };
    match run.name {
        "systemctl" => ends(words.first()),
        "service" | "rc-service" => ends(words.get(1)),
        "launchctl" => matches!(
            words.first(),
            Some(&("unload" | "bootout" | "remove" | "stop" | "kill"))
        ),
        _ => false,
    }
}

/// `pkill -9`, `killall -KILL`
pub(super) fn force_kills(run: &Invocation<'_>) -> bool {
    let is_kill = |signal: &str| matches!(signal.trim_start_matches("SIG"), "9" | "KILL");
    let mut previous = "";
    matches!(run.name, "pkill" | "killall")
        && run.arguments.iter().any(|word| {
            let text = word.text.as_str();
            let is_value = matches!(previous, "-s" | "--signal") && is_kill(text);
            previous = text;
            is_value
                || text.strip_prefix("--signal=").is_some_and(is_kill)
                || text.strip_prefix('-').is_some_and(is_kill)
        })
}

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
    super::own_program::is_hermes(run)
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
