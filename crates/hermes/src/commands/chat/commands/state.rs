//! What is the case: model, tokens, session, servers, configuration.

use std::fmt::Write as _;

use hermes_agent::{approval::ApprovalSettings, conversation::Conversation};
use hermes_config::ConfigFile;
use hermes_gateway::chat_commands::{self, describe_tokens};
use hermes_mcp::{Host, ServerStatus};
use hermes_store::{ModelUsage, SessionUsage};
use serde_json::{Value, json};

use super::{ChatContext, CommandOutcome};
use crate::{
    commands::{
        chat::{call, rendering::wrap, screen::CallDetail, start},
        state::pluralize,
    },
    failure::Failure,
};

/// A line of two columns.
fn push_line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<10} {value}");
}

pub(super) async fn status(chat: &mut ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let conversation = &chat.conversation;
    let session = conversation
        .session()
        .await
        .map_err(|error| start::conversation_failure(&error))?;
    let mut text = String::new();
    let title = session
        .as_ref()
        .and_then(|session| session.title.as_deref());
    let title = title.map(|title| format!(" \"{}\"", wrap::first_line(title, 80)));
    let messages = pluralize(conversation.messages().len(), "message");
    push_line(
        &mut text,
        "session",
        &format!(
            "{}{}, {messages}",
            conversation.id(),
            title.unwrap_or_default()
        ),
    );
    push_line(&mut text, "model", &model_line(conversation));
    let usage = session.map(|session| session.usage).unwrap_or_default();
    push_line(&mut text, "tokens", &describe_tokens(&usage));
    push_line(
        &mut text,
        "directory",
        &conversation.cwd().display().to_string(),
    );
    let confinement = conversation.agent().confinement();
    push_line(&mut text, "commands", &confinement.describe());
    let servers = conversation.agent().host().map(Host::status);
    push_line(
        &mut text,
        "servers",
        &by_state(&servers.unwrap_or_default()),
    );
    Ok(CommandOutcome::text(text.trim_end()))
}

/// The model in use, or what is known of it.
pub(in crate::commands::chat) fn model_line(conversation: &Conversation) -> String {
    match conversation.model() {
        Some(selection) => {
            let endpoint = &selection.endpoint;
            format!("{} ({})", endpoint.model, endpoint.provider)
        }
        None => "none yet; it is searched with the first message".to_owned(),
    }
}

/// The servers, or how to add one.
pub(in crate::commands::chat) fn by_state(servers: &[ServerStatus]) -> String {
    if servers.is_empty() {
        return "none; `hermes mcp add` adds one".to_owned();
    }
    chat_commands::servers_by_state(servers)
}

pub(super) async fn usage(chat: &ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let used = chat.conversation.usage().await;
    let (session, models) = used.map_err(|error| start::conversation_failure(&error))?;
    let Some(session) = session else {
        return Ok(CommandOutcome::text("Nothing has been used yet."));
    };
    Ok(CommandOutcome::text(usage_text(&session.usage, &models)))
}

fn usage_text(total: &SessionUsage, models: &[ModelUsage]) -> String {
    let mut text = String::new();
    for used in models {
        let task = match used.task.as_str() {
            "" => String::new(),
            task => format!(" for {task}"),
        };
        let _ = writeln!(
            text,
            "{}{task}: {}, {}{}",
            used.model,
            pluralize(usize::try_from(used.usage.api_calls).unwrap_or(0), "call"),
            describe_tokens(&used.usage),
            describe_cost(&used.usage)
        );
    }
    let total = total_usage(total, models);
    let calls = pluralize(usize::try_from(total.api_calls).unwrap_or(0), "call");
    let _ = write!(
        text,
        "in all: {calls}, {}{}",
        describe_tokens(&total),
        describe_cost(&total)
    );
    text
}

/// What the conversation took and what was done beside it, which its own count leaves out.
fn total_usage(conversation: &SessionUsage, models: &[ModelUsage]) -> SessionUsage {
    let add = |one: Option<f64>, two: Option<f64>| match (one, two) {
        (Some(one), Some(two)) => Some(one + two),
        (one, two) => one.or(two),
    };
    let mut sum = conversation.clone();
    for used in models.iter().filter(|used| !used.task.is_empty()) {
        let usage = &used.usage;
        sum.api_calls += usage.api_calls;
        sum.input_tokens += usage.input_tokens;
        sum.output_tokens += usage.output_tokens;
        sum.cache_read_tokens += usage.cache_read_tokens;
        sum.cache_write_tokens += usage.cache_write_tokens;
        sum.reasoning_tokens += usage.reasoning_tokens;
        // Where only one of the two is known to be exact, the sum is a guess.
        let costs = |usage: &SessionUsage| usage.actual_cost_usd.or(usage.estimated_cost_usd);
        let is_exact = sum.actual_cost_usd.is_some() && usage.actual_cost_usd.is_some();
        let cost = add(costs(&sum), costs(usage));
        sum.actual_cost_usd = cost.filter(|_| is_exact);
        sum.estimated_cost_usd = cost;
    }
    sum
}

fn describe_cost(usage: &SessionUsage) -> String {
    match (usage.actual_cost_usd, usage.estimated_cost_usd) {
        (Some(cost), _) => format!(", ${cost:.4}"),
        (None, Some(cost)) if cost > 0.0 => format!(", about ${cost:.4}"),
        _ => String::new(),
    }
}

pub(super) fn whoami(chat: &ChatContext<'_>) -> CommandOutcome {
    let settings = chat.conversation.agent().settings();
    let user = settings.variables.get("USER").map(ToString::to_string);
    let approvals = ApprovalSettings::from_document(&settings.document);
    let mut text = String::new();
    push_line(&mut text, "user", user.as_deref().unwrap_or("unknown"));
    push_line(&mut text, "platform", "cli, on this terminal");
    push_line(&mut text, "session", chat.conversation.id().as_str());
    push_line(
        &mut text,
        "home",
        &chat.context.home.path().display().to_string(),
    );
    push_line(
        &mut text,
        "directory",
        &chat.conversation.cwd().display().to_string(),
    );
    push_line(
        &mut text,
        "approvals",
        &format!("{:?}", approvals.mode).to_lowercase(),
    );
    CommandOutcome::text(text.trim_end())
}

pub(super) fn config(chat: &ChatContext<'_>) -> CommandOutcome {
    let settings = chat.conversation.agent().settings();
    let home = &chat.context.home;
    let mut text = String::new();
    push_line(&mut text, "file", &home.config_file().display().to_string());
    push_line(&mut text, "secrets", &home.env_file().display().to_string());
    push_line(&mut text, "model", &model_line(chat.conversation));
    push_line(&mut text, "servers", &settings.servers.len().to_string());
    let auto = if settings.mcp.auto_reload {
        "as it is saved"
    } else {
        "with /reload-mcp"
    };
    push_line(&mut text, "applied", auto);
    for warning in &settings.warnings {
        push_line(&mut text, "warning", &warning.to_string());
    }
    CommandOutcome::text(text.trim_end())
}

pub(super) fn verbose(chat: &ChatContext<'_>) -> CommandOutcome {
    let (detail, text) = match chat.screen.detail() {
        CallDetail::Brief => (
            CallDetail::Full,
            "Arguments and results of tools are shown from now on.",
        ),
        CallDetail::Full => (CallDetail::Brief, "Each tool call is one line from now on."),
    };
    chat.screen.set_detail(detail);
    CommandOutcome::text(text)
}

/// What `/model` was asked to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct ModelSwitch {
    model: Option<String>,
    provider: Option<String>,
    is_global: bool,
}

fn parse_model_switch(rest: &str) -> Result<ModelSwitch, Failure> {
    const USAGE: &str = "`/model NAME [--provider P] [--global]`";
    let mut wish = ModelSwitch::default();
    let mut words = call::split_words(rest)?.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--global" => wish.is_global = true,
            "--session" => wish.is_global = false,
            "--provider" => {
                let provider = words.next();
                wish.provider =
                    Some(provider.ok_or_else(|| Failure::usage("which provider?").hint(USAGE))?);
            }
            flag if flag.starts_with("--") => {
                return Err(Failure::usage(format!("there is no `{flag}`")).hint(USAGE));
            }
            _ if wish.model.is_some() => {
                return Err(Failure::usage("a model has one name").hint(USAGE));
            }
            _ => wish.model = Some(word),
        }
    }
    Ok(wish)
}

pub(super) async fn model(
    chat: &mut ChatContext<'_>,
    rest: &str,
) -> Result<CommandOutcome, Failure> {
    let wish = parse_model_switch(rest)?;
    if wish == ModelSwitch::default() {
        let selection = chat.conversation.find_model().await;
        selection.map_err(|error| start::conversation_failure(&error))?;
        return Ok(CommandOutcome::text(model_line(chat.conversation)));
    }
    if wish.model.is_none() && wish.provider.is_none() {
        return Err(Failure::usage("which model?").hint("`/model NAME --global`"));
    }
    let set = chat
        .conversation
        .set_model(wish.model.clone(), wish.provider.clone());
    set.await
        .map_err(|error| start::conversation_failure(&error))?;
    let mut text = format!("From now on: {}", model_line(chat.conversation));
    if wish.is_global {
        write_model(chat, &wish)?;
        text.push_str(", in new sessions too.");
    } else {
        text.push_str(" in this session; `--global` writes it to the configuration.");
    }
    Ok(CommandOutcome::text(text))
}

/// Writes the choice to `config.yaml`, leaving everything else as it is.
fn write_model(chat: &ChatContext<'_>, wish: &ModelSwitch) -> Result<(), Failure> {
    let mut file = ConfigFile::open(&chat.context.home)?;
    let is_mapping = file.get(&["model"]).is_some_and(Value::is_object);
    match (is_mapping, &wish.model, &wish.provider) {
        (false, Some(model), None) => file.set(&["model"], json!(model)),
        (false, model, provider) => {
            let mut entry = serde_json::Map::new();
            let before = file
                .get(&["model"])
                .and_then(Value::as_str)
                .map(str::to_owned);
            if let Some(model) = model.clone().or(before) {
                entry.insert("default".into(), json!(model));
            }
            if let Some(provider) = provider {
                entry.insert("provider".into(), json!(provider));
            }
            file.set(&["model"], Value::Object(entry));
        }
        (true, model, provider) => {
            if let Some(model) = model {
                file.set(&["model", "default"], json!(model));
            }
            if let Some(provider) = provider {
                file.set(&["model", "provider"], json!(provider));
            }
        }
    }
    Ok(file.save()?)
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;
    use hermes_mcp::LinkStatus;

    use super::*;

    #[test]
    fn servers_are_counted_by_state_and_named_where_something_is_wrong() {
        let server = |name: &str, status, tools| ServerStatus {
            tools,
            ..ServerStatus::unconnected(&ServerName::new(name), "stdio", status)
        };
        let servers = [
            server("a", LinkStatus::Ready, 3),
            server("b", LinkStatus::Parked, 0),
            server("c", LinkStatus::Ready, 1),
            server("d", LinkStatus::Parked, 0),
        ];
        assert_eq!(by_state(&servers), "2 ready (4 tools), 2 parked (b, d)");
        assert!(by_state(&[]).starts_with("none"));
    }

    #[test]
    fn a_wish_for_a_model_is_read() {
        let wish = |rest| parse_model_switch(rest).unwrap();
        assert_eq!(wish(""), ModelSwitch::default());
        let full = wish("gpt-5 --provider openai --global");
        assert_eq!(full.model.as_deref(), Some("gpt-5"));
        assert_eq!(full.provider.as_deref(), Some("openai"));
        assert!(full.is_global);
        for wrong in ["a b", "--provider", "a --what"] {
            assert!(parse_model_switch(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn usage_is_told_by_model_and_in_all() {
        let usage = SessionUsage {
            api_calls: 1,
            input_tokens: 10,
            cache_read_tokens: 4,
            output_tokens: 2,
            estimated_cost_usd: Some(0.5),
            ..SessionUsage::default()
        };
        let of = |model: &str, task: &str| ModelUsage {
            model: model.into(),
            task: task.into(),
            usage: usage.clone(),
        };
        // The session counts the conversation alone.
        assert_eq!(
            usage_text(&usage, &[of("m", ""), of("s", "title")]),
            "m: 1 call, 10 in (4 of them cached), 2 out, about $0.5000\n\
             s for title: 1 call, 10 in (4 of them cached), 2 out, about $0.5000\n\
             in all: 2 calls, 20 in (8 of them cached), 4 out, about $1.0000"
        );
    }
}
