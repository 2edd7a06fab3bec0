//! `hermes sessions rename`.

use hermes_store::{Access, Store};
use serde_json::json;

use crate::{cli::RenameArgs, context::Context, failure::Failure};

pub(super) async fn run(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    let (_, session) = super::find_session(context, &args.id).await?;
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
