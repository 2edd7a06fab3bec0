//! `hermes sessions list`.

use hermes_store::{SessionListing, SessionOrder, SessionQuery, SessionSummary};
use serde_json::{Value, json};

use super::conversation::{session_json, shown_time};
use crate::{
    cli::SessionsListArgs,
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) async fn run(context: &Context, args: &SessionsListArgs) -> Result<(), Failure> {
    let sessions = match super::open_store(context).await? {
        Some(store) => {
            let query = SessionQuery {
                sources: args.source.clone(),
                listing: if args.all {
                    SessionListing::All
                } else {
                    SessionListing::Conversations
                },
                order: SessionOrder::Active,
                limit: args.limit,
                ..SessionQuery::default()
            };
            store.list_sessions(&query).await?
        }
        None => Vec::new(),
    };
    let output = context.output;
    if sessions.is_empty() {
        output.note("No conversation is stored here yet; `hermes chat` begins one.");
    } else {
        output.table(&table(&sessions));
    }
    let sessions = sessions.iter().map(summary_json);
    output.json(json!({"sessions": sessions.collect::<Vec<_>>()}));
    Ok(())
}

fn table(sessions: &[SessionSummary]) -> Table {
    let mut table = Table::new(&["ID", "SOURCE", "MESSAGES", "LAST USED", "TITLE"]);
    for summary in sessions {
        let session = &summary.session;
        let (title, tone) = match &session.title {
            Some(title) => (title.clone(), Tone::Plain),
            None => (summary.preview.clone(), Tone::Faint),
        };
        table.row([
            (session.id.to_string(), Tone::Strong),
            (session.source.clone(), Tone::Plain),
            (session.message_count.to_string(), Tone::Plain),
            (shown_time(summary.last_active), Tone::Plain),
            (title, tone),
        ]);
    }
    table
}

fn summary_json(summary: &SessionSummary) -> Value {
    let mut object = session_json(&summary.session);
    object["preview"] = json!(summary.preview);
    object["last_active"] = json!(summary.last_active);
    object
}
