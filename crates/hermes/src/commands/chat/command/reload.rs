//! `/reload-mcp`: reads the configuration again, restarts what changed, and leaves a note in the conversation.

use std::{fmt::Write as _, time::Duration};

use hermes_config::{ConfigFile, Settings};
use hermes_mcp::ReloadReport;
use serde_json::json;

use super::{Done, Room, state::by_state};
use crate::{chat::floor::Asking, failure::Failure};

/// How long to wait for new servers before the totals are shown.
const SETTLING: Duration = Duration::from_secs(5);

/// What the person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Once,
    Always,
    Cancel,
}

pub(super) async fn run(room: &mut Room<'_>) -> Result<Done, Failure> {
    let Some(host) = room.conversation.agent().host().cloned() else {
        return Err(Failure::failed("no MCP server is used in safe mode"));
    };
    needs_config(room)?;
    let mut settings = Settings::load(&room.context.home)?;
    let plan = host.plan_reload(&settings).await;
    let asks = !plan.is_quiet() && settings.mcp.reload_confirm && room.floor.has_person();
    if asks {
        let text = changes(&plan);
        let choice = room.floor.ask(move |asking| ask(asking, &text)).await;
        match choice.unwrap_or(Choice::Cancel) {
            Choice::Once => {}
            Choice::Always => {
                let mut file = ConfigFile::open(&room.context.home)?;
                file.set(&["approvals", "mcp_reload_confirm"], json!(false));
                file.save()?;
                settings = Settings::load(&room.context.home)?;
            }
            Choice::Cancel => return Ok(Done::text("Nothing was reloaded.")),
        }
    }
    Ok(Done::text(apply(room, settings).await))
}

/// A run that began without config.yaml goes on without it.
pub(super) fn needs_config(room: &Room<'_>) -> Result<(), Failure> {
    if room.context.is_config_left_aside() {
        return Err(
            Failure::failed("config.yaml is left aside in this conversation")
                .hint("without `--ignore-user-config`, its servers are there"),
        );
    }
    Ok(())
}

fn ask(asking: &Asking<'_>, changes: &str) -> Result<Choice, Failure> {
    asking.say(changes);
    asking.say(
        "The model's tools change, so what its provider remembers of this conversation is lost.",
    );
    loop {
        let answer = asking.line("Reload? [o]nce, [a]lways without asking, [c]ancel")?;
        if let Some(choice) = read(&answer) {
            return Ok(choice);
        }
    }
}

fn read(answer: &str) -> Option<Choice> {
    match answer.trim().to_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => Some(Choice::Once),
        "a" | "always" => Some(Choice::Always),
        "c" | "cancel" | "n" | "no" | "" => Some(Choice::Cancel),
        _ => None,
    }
}

/// Brings the servers in line with these settings and tells what happened; the model is told with the next message.
pub(in crate::commands::chat) async fn apply(room: &mut Room<'_>, settings: Settings) -> String {
    room.answers.use_settings(&settings);
    let Some(report) = room.conversation.reload(settings).await else {
        return "The configuration was read again.".to_owned();
    };
    let host = room.conversation.agent().host().cloned();
    let servers = match host {
        Some(host) => {
            tokio::select! {
                _ = host.settled(SETTLING) => {}
                () = room.cancel.cancelled() => {}
            }
            host.status()
        }
        None => Vec::new(),
    };
    if !report.is_quiet() {
        let changes = changes(&report).replace('\n', "; ");
        room.desk.notes.push(format!(
            "[The MCP servers were reloaded: {changes}. Your tools may have changed.]"
        ));
    }
    format!("{}\nnow         {}", changes(&report), by_state(&servers))
}

/// One line for each kind of change.
fn changes(report: &ReloadReport) -> String {
    let mut text = String::new();
    for (verb, names) in [
        ("added", &report.added),
        ("removed", &report.removed),
        ("restarted", &report.restarted),
        ("tried again", &report.retried),
        ("unchanged", &report.unchanged),
    ] {
        if !names.is_empty() {
            let _ = writeln!(text, "{verb:<11} {}", names.join(", "));
        }
    }
    if text.is_empty() {
        text.push_str("nothing is configured");
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_kind() {
        let report = ReloadReport {
            added: vec!["a".into(), "b".into()],
            unchanged: vec!["c".into()],
            ..ReloadReport::default()
        };
        assert_eq!(changes(&report), "added       a, b\nunchanged   c");
        assert_eq!(changes(&ReloadReport::default()), "nothing is configured");
    }

    #[test]
    fn an_empty_answer_reloads_nothing() {
        assert_eq!(read(""), Some(Choice::Cancel));
        assert_eq!(read("Always"), Some(Choice::Always));
        assert_eq!(read("o"), Some(Choice::Once));
        assert_eq!(read("perhaps"), None);
    }
}
