//! `/reload-mcp`: reads the configuration again, restarts what changed, and leaves a note in the conversation.

use std::{fmt::Write as _, time::Duration};

use hermes_config::{ConfigFile, Settings};
use hermes_mcp::ReloadReport;
use serde_json::json;

use super::{ChatContext, CommandOutcome, state::by_state};
use crate::{commands::chat::prompts::queue::OpenPrompt, failure::Failure};

/// How long to wait for new servers before the totals are shown.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadChoice {
    Once,
    Always,
    Cancel,
}

pub(super) async fn run(chat: &mut ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let Some(host) = chat.conversation.agent().host().cloned() else {
        return Err(Failure::failed("no MCP server is used in safe mode"));
    };
    check_config_in_use(chat)?;
    let mut settings = Settings::load(&chat.context.home)?;
    let plan = host.plan_reload(&settings).await;
    let asks = !plan.is_noop() && settings.mcp.reload_confirm && chat.prompts.has_person();
    if asks {
        let text = describe_changes(&plan);
        let choice = chat
            .prompts
            .prompt(move |prompt| ask_reload(prompt, &text))
            .await;
        match choice.unwrap_or(ReloadChoice::Cancel) {
            ReloadChoice::Once => {}
            ReloadChoice::Always => {
                let mut file = ConfigFile::open(&chat.context.home)?;
                file.set(&["approvals", "mcp_reload_confirm"], json!(false));
                file.save()?;
                settings = Settings::load(&chat.context.home)?;
            }
            ReloadChoice::Cancel => return Ok(CommandOutcome::text("Nothing was reloaded.")),
        }
    }
    Ok(CommandOutcome::text(apply_settings(chat, settings).await))
}

/// A run that began without config.yaml goes on without it.
pub(super) fn check_config_in_use(chat: &ChatContext<'_>) -> Result<(), Failure> {
    if chat.context.ignores_config() {
        return Err(
            Failure::failed("config.yaml is ignored in this conversation")
                .hint("without `--ignore-user-config`, its servers are there"),
        );
    }
    Ok(())
}

fn ask_reload(prompt: &OpenPrompt<'_>, changes: &str) -> Result<ReloadChoice, Failure> {
    prompt.say(changes);
    prompt.say("The model's tools change, so the provider's cache of this conversation is lost.");
    loop {
        let answer = prompt.read_line("Reload? [o]nce, [a]lways without asking, [c]ancel")?;
        if let Some(choice) = parse_choice(&answer) {
            return Ok(choice);
        }
    }
}

fn parse_choice(answer: &str) -> Option<ReloadChoice> {
    match answer.trim().to_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => Some(ReloadChoice::Once),
        "a" | "always" => Some(ReloadChoice::Always),
        "c" | "cancel" | "n" | "no" | "" => Some(ReloadChoice::Cancel),
        _ => None,
    }
}

/// Brings the servers in line with these settings and tells what happened; the model is told with the next message.
pub(in crate::commands::chat) async fn apply_settings(
    chat: &mut ChatContext<'_>,
    settings: Settings,
) -> String {
    chat.server_requests.apply_settings(&settings);
    let Some(report) = chat.conversation.reload(settings).await else {
        return "The configuration was read again.".to_owned();
    };
    let host = chat.conversation.agent().host().cloned();
    let servers = match host {
        Some(host) => {
            tokio::select! {
                _ = host.wait_until_settled(SETTLE_TIMEOUT) => {}
                () = chat.cancel.cancelled() => {}
            }
            host.status()
        }
        None => Vec::new(),
    };
    if !report.is_noop() {
        let changes = describe_changes(&report).replace('\n', "; ");
        chat.pending.notes.push(format!(
            "[The MCP servers were reloaded: {changes}. Your tools may have changed.]"
        ));
    }
    format!(
        "{}\nnow         {}",
        describe_changes(&report),
        by_state(&servers)
    )
}

/// One line for each kind of change.
fn describe_changes(report: &ReloadReport) -> String {
    let mut text = String::new();
    for (verb, names) in [
        ("added", &report.added),
        ("removed", &report.removed),
        ("restarted", &report.restarted),
        ("retried", &report.retried),
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
        assert_eq!(describe_changes(&report), "added       a, b\nunchanged   c");
        assert_eq!(
            describe_changes(&ReloadReport::default()),
            "nothing is configured"
        );
    }

    #[test]
    fn an_empty_answer_reloads_nothing() {
        assert_eq!(parse_choice(""), Some(ReloadChoice::Cancel));
        assert_eq!(parse_choice("Always"), Some(ReloadChoice::Always));
        assert_eq!(parse_choice("o"), Some(ReloadChoice::Once));
        assert_eq!(parse_choice("perhaps"), None);
    }
}
