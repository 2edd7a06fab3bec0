//! `hermes sessions …`: the conversations of a home.

mod conversation;
mod export;
mod list;
mod search;
mod show;

use hermes_store::{Access, Session, SessionQuery, Store, StoreError};
use serde_json::json;

use crate::{
    cli::{DeleteArgs, RenameArgs, SessionsCommand},
    commands::state::pluralize,
    context::Context,
    failure::{Failure, FailureKind},
    output::printable,
    question::{DefaultAnswer, Questions},
};

/// Among how many sessions a name is looked for that was mistyped.
const MAX_NAMES: u32 = 500;

pub(super) fn run(context: &Context, command: SessionsCommand) -> Result<(), Failure> {
    match command {
        SessionsCommand::List(args) => context.block_on(list::run(context, &args)),
        SessionsCommand::Show(args) => context.block_on(show::run(context, &args)),
        SessionsCommand::Search(args) => context.block_on(search::run(context, &args)),
        SessionsCommand::Export(args) => context.block_on(export::run(context, &args)),
        SessionsCommand::Rename(args) => context.block_on(run_rename(context, &args)),
        SessionsCommand::Delete(args) => run_delete(context, &args),
    }
}

/// The store, to be read; none where nothing was stored yet.
async fn open_store(context: &Context) -> Result<Option<Store>, Failure> {
    match Store::open(&context.home, Access::ReadOnly).await {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Absent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The session that a person means, with the store it was found in.
async fn find_session(context: &Context, reference: &str) -> Result<(Store, Session), Failure> {
    let Some(store) = open_store(context).await? else {
        return Err(not_found(reference, Vec::new()));
    };
    match store.find_session(reference).await? {
        Some(session) => Ok((store, session)),
        None => Err(no_such_session(&store, reference).await),
    }
}

/// There is no such session in the store; it may have been mistyped.
pub(super) async fn no_such_session(store: &Store, reference: &str) -> Failure {
    not_found(reference, session_names(store).await)
}

fn not_found(reference: &str, known: Vec<String>) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!("there is no session `{reference}`"),
    )
    .suggest_nearest(reference, known.into_iter())
    .hint("`hermes sessions list` shows what there is")
}

/// The ids and titles of the sessions that were used last.
pub(super) async fn recent_sessions(store: &Store) -> Vec<(String, Option<String>)> {
    let query = SessionQuery {
        limit: MAX_NAMES,
        ..SessionQuery::default()
    };
    let sessions = store.list_sessions(&query).await.unwrap_or_default();
    sessions
        .into_iter()
        .map(|summary| (summary.session.id.to_string(), summary.session.title))
        .collect()
}

/// The same as names that may be typed.
async fn session_names(store: &Store) -> Vec<String> {
    let titled = recent_sessions(store).await.into_iter();
    titled
        .flat_map(|(id, title)| [title, Some(id)])
        .flatten()
        .collect()
}

async fn run_rename(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    let (_, session) = find_session(context, &args.id).await?;
    let store = Store::open(&context.home, Access::ReadWrite).await?;
    let title = store.set_title(&session.id, &args.title).await;
    store.close().await;
    let title = title?;
    let id = &session.id;
    context.output.note(match &title {
        Some(title) => format!("`{id}` is now called `{title}`."),
        None => format!("`{id}` has no title now."),
    });
    context
        .output
        .json(json!({"session": id.as_str(), "title": title}));
    Ok(())
}

fn run_delete(context: &Context, args: &DeleteArgs) -> Result<(), Failure> {
    let (_, session) = context.block_on(find_session(context, &args.id))?;
    let id = &session.id;
    if !args.yes {
        let messages = usize::try_from(session.message_count).unwrap_or_default();
        let title = session.title.as_deref().map(printable);
        let title = title.map_or_else(String::new, |title| format!(" ({title})"));
        let question = format!(
            "Delete `{id}`{title} with {}? This cannot be undone.",
            pluralize(messages, "message")
        );
        let questions = Questions::new(false);
        if !questions.confirm(&question, DefaultAnswer::No, "`--yes` deletes it")? {
            return Err(Failure::failed(format!("`{id}` stays")));
        }
    }
    let is_deleted = context.block_on(async {
        let store = Store::open(&context.home, Access::ReadWrite).await?;
        let deleted = store.delete_session(id).await;
        store.close().await;
        Ok(deleted?)
    })?;
    if !is_deleted {
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("`{id}` was deleted by another process"),
        ));
    }
    context.output.note(format!("Deleted `{id}`."));
    context.output.json(json!({"deleted": id.as_str()}));
    Ok(())
}
