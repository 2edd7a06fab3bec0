//! `hermes sessions delete`.

use hermes_store::{Access, Store};
use serde_json::json;

use crate::{
    cli::DeleteArgs,
    commands::state::pluralize,
    context::Context,
    failure::{Failure, FailureKind},
    output::printable,
    question::{DefaultAnswer, Questions},
};

pub(super) fn run(context: &Context, args: &DeleteArgs) -> Result<(), Failure> {
    let (_, session) = context.block_on(super::find_session(context, &args.id))?;
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
