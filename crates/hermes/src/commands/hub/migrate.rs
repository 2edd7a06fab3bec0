//! `hermes hub migrate`: brings the database of a Hub that does not run to this version.

use hermes_hub::storage::state::{SqliteState, State};
use serde_json::json;

use super::serve::local_sources;
use crate::{
    cli::DataDirArgs,
    context::Context,
    embedded_hub,
    embedded_hub::{database_path, open_data_dir},
    failure::Failure,
};

pub(super) fn run(context: &Context, args: &DataDirArgs) -> Result<(), Failure> {
    let settings = embedded_hub::load_settings(&local_sources(args))?;
    let path = database_path(&settings)?;
    if !path.exists() {
        return Err(Failure::usage(format!("`{}` is not there", path.display()))
            .hint("`hermes hub serve` makes a new one; `--data-dir` says where the Hub is"));
    }
    let directory = open_data_dir(&settings)?;
    let _lock = directory.lock()?;
    let node = directory.node_id()?;
    context.block_on(async {
        let state = SqliteState::open(&path, &node).await?;
        State::close(&state).await;
        Ok(())
    })?;
    context
        .output
        .json(json!({"database": path.display().to_string()}));
    context.output.note(format!(
        "`{}` has the tables of this version.",
        path.display()
    ));
    Ok(())
}
