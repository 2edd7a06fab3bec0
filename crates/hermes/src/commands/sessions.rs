//! `hermes sessions …`: the conversations of a home.

use hermes_store::{Access, Session, Store, StoreError};

use crate::{
    cli::SessionsCommand,
    context::Context,
    failure::{Failure, Kind},
};

mod conversation;
mod delete;
mod export;
mod list;
mod rename;
mod search;
mod show;

pub(super) fn run(context: &Context, command: SessionsCommand) -> Result<(), Failure> {
    match command {
        SessionsCommand::List(args) => context.block_on(list::run(context, &args)),
        SessionsCommand::Show(args) => context.block_on(show::run(context, &args)),
        SessionsCommand::Search(args) => context.block_on(search::run(context, &args)),
        SessionsCommand::Export(args) => context.block_on(export::run(context, &args)),
        SessionsCommand::Rename(args) => context.block_on(rename::run(context, &args)),
        SessionsCommand::Delete(args) => delete::run(context, &args),
    }
}

/// The store, to be read; none where nothing was stored yet.
async fn stored(context: &Context) -> Result<Option<Store>, Failure> {
    match Store::open(&context.home, Access::ReadOnly).await {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Absent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The session that a person means, with the store it was found in.
async fn find(context: &Context, reference: &str) -> Result<(Store, Session), Failure> {
    let no_such = || {
        Failure::new(Kind::NotFound, format!("there is no session `{reference}`"))
            .hint("`hermes sessions list` shows what there is")
    };
    let store = stored(context).await?.ok_or_else(no_such)?;
    let session = store.find_session(reference).await?.ok_or_else(no_such)?;
    Ok((store, session))
}
