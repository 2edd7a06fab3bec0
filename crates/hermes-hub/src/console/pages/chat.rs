//! The chat box: a conversation of a tenant's agent, and a run that goes on with it. The address has both.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    is_there, render,
    run::{LongText, RunStep, RunSteps, WaitingApproval, stored_events},
};
use crate::{
    Problem,
    api_types::{Run, RunStatus, Tenant, Time},
    console::{
        frame::Frame,
        request::PageRequest,
        schema_form::{FieldControl, FormItem},
    },
};

/// Conversations that can be picked, the last used ones.
const MAX_CONVERSATIONS: u32 = 30;
/// Messages that are shown, the newest ones.
const MAX_MESSAGES: u32 = 100;
/// Events of the run that are read: an answer under way.
const MAX_EVENTS: u64 = 5000;
/// Where conversations of the API take place: here, and in clients of the Hub.
const SOURCE: &str = "api_server";
/// Characters of a conversation's beginning in the list.
const PREVIEW_CHARS: usize = 60;

#[derive(Template)]
#[template(path = "pages/chat.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each decides on one part of the page"
)]
struct ChatPage {
    page: Frame,
    tenant: String,
    conversations: Vec<PickedConversation>,
    /// The conversation that is open or begins with the next message.
    session: String,
    is_new: bool,
    /// Whether it is one of those that can be picked.
    is_listed: bool,
    messages: Vec<ChatMessageRow>,
    /// Where all messages are, if some are not shown.
    older: Option<String>,
    run: Option<RunView>,
    /// Waits for the answer to a message: another one is sent after it.
    is_live: bool,
    may_decide: bool,
    may_stop: bool,
}

struct PickedConversation {
    id: String,
    text: String,
    is_open: bool,
}

struct RunView {
    id: String,
    status: RunStatus,
    /// What was asked, until the conversation has it.
    asked: Option<String>,
    steps: Vec<RunStep>,
    waits: Vec<WaitingApproval>,
    failure: Option<String>,
    last: u64,
}

impl ChatMessageRow {
    fn shown_text(&self) -> LongText<'_> {
        LongText::new(&self.text)
    }

    fn is_from(&self, role: &str) -> bool {
        self.role == role
    }

    /// The names of the tools that are called in it.
    fn called_tools(&self) -> Vec<String> {
        let calls = self.tool_calls.as_array().into_iter().flatten();
        let names = calls.filter_map(|call| {
            let name = call["function"]["name"].as_str();
            name.or_else(|| call["name"].as_str())
        });
        names.map(str::to_owned).collect()
    }
}

#[derive(Deserialize)]
struct ConversationChoices {
    sessions: Vec<ConversationChoice>,
}

#[derive(Deserialize)]
struct ConversationChoice {
    id: String,
    title: Option<String>,
    preview: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatMessageList {
    messages: Vec<ChatMessageRow>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatMessageRow {
    role: String,
    time: Time,
    text: String,
    tool_name: Option<String>,
    tool_calls: Value,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    // Says that there is no such tenant, also where the conversations may not be read.
    let _: Tenant = request
        .read("get_tenant", json!({"tenant_id": tenant}))
        .await?;
    let asked = request.query("session").map(str::to_owned);
    let is_new = asked.is_none();
    let session = match asked {
        Some(session) => session,
        None => format!("chat-{}", hermes_config::random::random_digits(16)),
    };
    let said = if is_new {
        None
    } else {
        read_messages(&request, &tenant, &session).await?
    };
    let mut run = match request.query("run") {
        Some(run) => Some(read_run(&request, &tenant, run).await?),
        None => None,
    };
    let is_live = run.as_ref().is_some_and(|run| !run.status.is_final());
    let all = "/tenants/{tenant_id}/conversations/{session_id}";
    let has_older = said.as_ref().is_some_and(|said| said.next_cursor.is_some());
    let older = (has_older && is_there(&request, all))
        .then(|| format!("/tenants/{tenant}/conversations/{}", encode(&session)));
    let mut messages = said.map_or_else(Vec::new, |said| said.messages);
    if let Some(run) = &mut run {
        settle(run, &mut messages);
    }
    let mut page = Frame::new(&request, request.texts.get("chat.title"));
    // One sees that the run has begun.
    page.done = None;
    if is_live {
        // The stream of the run says all that happens here.
        page.live = None;
    }
    let conversations = read_choices(&request, &tenant, &session).await;
    render(&ChatPage {
        is_listed: conversations.iter().any(|choice| choice.is_open),
        conversations,
        tenant,
        session,
        is_new,
        messages,
        older,
        run,
        is_live,
        may_decide: request.may("respond_approval"),
        may_stop: is_live && request.may("stop_run"),
        page,
    })
}

fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The newest messages; none of a conversation that has not begun, or that the reader may not read.
async fn read_messages(
    request: &PageRequest,
    tenant: &str,
    session: &str,
) -> Result<Option<ChatMessageList>, Problem> {
    if !request.may("list_session_messages") {
        return Ok(None);
    }
    let wanted = json!({
        "tenant_id": tenant,
        "session_id": session,
        "newest": true,
        "limit": MAX_MESSAGES,
    });
    match request.read("list_session_messages", wanted).await {
        Ok(said) => Ok(Some(said)),
        Err(problem) if problem.code == crate::ProblemCode::NotFound => Ok(None),
        Err(problem) => Err(problem),
    }
}

async fn read_choices(request: &PageRequest, tenant: &str, open: &str) -> Vec<PickedConversation> {
    if !request.may("list_sessions") {
        return Vec::new();
    }
    let wanted = json!({"tenant_id": tenant, "source": SOURCE, "limit": MAX_CONVERSATIONS});
    let found = request.read::<ConversationChoices>("list_sessions", wanted);
    let found = found
        .await
        .map_or_else(|_| Vec::new(), |found| found.sessions);
    let choices = found.into_iter().map(|choice| {
        let text = choice.title.unwrap_or(choice.preview);
        let text: String = text.chars().take(PREVIEW_CHARS).collect();
        PickedConversation {
            text: if text.trim().is_empty() {
                choice.id.clone()
            } else {
                text
            },
            is_open: choice.id == open,
            id: choice.id,
        }
    });
    choices.collect()
}

async fn read_run(request: &PageRequest, tenant: &str, id: &str) -> Result<RunView, Problem> {
    let names = json!({"tenant_id": tenant, "run_id": id});
    let read: Value = request.read("get_run", names.clone()).await?;
    let asked = read["input"].as_str().map(str::to_owned);
    let run: Run = serde_json::from_value(read).map_err(|error| Problem::internal(&error))?;
    let after = run.last_event_id.saturating_sub(MAX_EVENTS);
    let events = stored_events(request, names, after, run.last_event_id).await?;
    let mut steps = RunSteps::from_events(events);
    if run.status != RunStatus::WaitingForApproval {
        steps.waits.clear();
    }
    Ok(RunView {
        id: run.run_id.to_string(),
        status: run.status,
        asked,
        failure: run.error.map(|error| error.message),
        last: steps.last.max(after),
        steps: steps.steps,
        waits: steps.waits,
    })
}

/// A run is shown once: by its steps while it goes on, by the messages that it has left afterwards.
fn settle(run: &mut RunView, messages: &mut Vec<ChatMessageRow>) {
    let Some(asked) = run.asked.as_deref() else {
        return;
    };
    let begin = messages
        .iter()
        .rposition(|message| message.is_from("user") && message.text.trim() == asked.trim());
    let Some(begin) = begin else { return };
    let is_stored = messages[begin..]
        .iter()
        .any(|message| message.is_from("assistant"));
    if run.status.is_final() && (is_stored || run.failure.is_some()) {
        run.asked = None;
        if is_stored {
            run.steps.clear();
        }
    } else {
        messages.truncate(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, text: &str) -> ChatMessageRow {
        ChatMessageRow {
            role: role.to_owned(),
            time: Time::now(),
            text: text.to_owned(),
            tool_name: None,
            tool_calls: Value::Null,
        }
    }

    fn run(status: RunStatus) -> RunView {
        RunView {
            id: "r".to_owned(),
            status,
            asked: Some("Hi".to_owned()),
            steps: Vec::new(),
            waits: Vec::new(),
            failure: None,
            last: 0,
        }
    }

    #[test]
    fn a_message_is_not_shown_twice() {
        let stored = || vec![said("user", "Hi"), said("assistant", "Hello")];
        let (mut ended, mut messages) = (run(RunStatus::Completed), stored());
        settle(&mut ended, &mut messages);
        assert_eq!((messages.len(), ended.asked), (2, None));
        let (mut live, mut messages) = (run(RunStatus::Running), stored());
        settle(&mut live, &mut messages);
        assert_eq!((messages.len(), live.asked.as_deref()), (0, Some("Hi")));
    }
}
