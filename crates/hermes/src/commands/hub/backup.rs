//! `hermes hub backup`, `restore` and `migrate`: all that a Hub of this machine keeps, in one file, back, or brought to this
//! version.

use std::{fs::File, io, io::Write as _, path::Path};

use hermes_config::private_file::write_private;
use hermes_hub::{
    settings::Settings,
    storage::{
        backup,
        backup::{KeyInBackup, RestoredCommand},
        objects::ObjectLocation,
        state::{OpenedState, PostgresOptions, PostgresState, SqliteState, State},
    },
};
use serde_json::json;

use super::serve::local_sources;
use crate::{
    cli::{BackupArgs, DataDirArgs, RestoreArgs},
    commands::state::pluralize,
    context::Context,
    embedded_hub,
    embedded_hub::{database_path, open_data_dir},
    failure::Failure,
};

pub(super) fn run(context: &Context, args: &BackupArgs) -> Result<(), Failure> {
    let settings = embedded_hub::load_settings(&local_sources(&args.data))?;
    if args.metadata {
        return write_positions(context, &settings, &args.file);
    }
    let path = database_path(&settings)?;
    if !path.exists() {
        let shown = settings.data_dir.display();
        return Err(Failure::usage(format!("`{shown}` does not contain a Hub"))
            .hint("`--data-dir` says where it is"));
    }
    let directory = open_data_dir(&settings)?;
    let key = if args.with_key {
        if settings.secret_key_file != directory.secret_key() {
            let path = settings.secret_key_file.display();
            return Err(Failure::usage(format!(
                "the key is in `{path}`, not in the Hub's directory, and would not be in the backup"
            ))
            .hint("leave out `--with-key`, and keep a copy of that file yourself"));
        }
        KeyInBackup::With
    } else {
        KeyInBackup::Without
    };
    let manifest = context.block_on(async {
        let node = directory.node_id()?;
        let state = SqliteState::open(&path, &node).await?;
        let written = if args.file.as_os_str() == "-" {
            backup::write_backup(&directory, &state, key, io::stdout()).await
        } else {
            backup::write_backup_file(&directory, &state, key, &args.file).await
        };
        State::close(&state).await;
        Ok(written?)
    })?;
    if let Some(first) = manifest.left_out.first() {
        context.output.warning(format!(
            "{} cannot be read and {} left out, the first of them `{first}`; check who may read it, or whether its path is too deep",
            pluralize(manifest.left_out.len(), "path"),
            if manifest.left_out.len() == 1 { "is" } else { "are" },
        ));
    }
    if args.file.as_os_str() != "-" {
        let (file, paths) = (args.file.display().to_string(), manifest.files.len());
        let with_key = key == KeyInBackup::With;
        context.output.json(
            json!({"file": file, "paths": paths, "withKey": with_key, "leftOut": manifest.left_out}),
        );
    }
    let files = pluralize(manifest.files.len(), "path");
    context.output.note(match key {
        KeyInBackup::With => format!(
            "Backed up {files}, with the key of its secrets: keep it where only you can read it."
        ),
        KeyInBackup::Without => {
            format!("Backed up {files}, without `secret.key`: keep that file elsewhere.")
        }
    });
    Ok(())
}

/// Where database and objects are now. Rows refer to objects that are older than they are, so objects of that time or of
/// a later one fit.
fn write_positions(context: &Context, settings: &Settings, file: &Path) -> Result<(), Failure> {
    if !settings.database.is_postgres() {
        return Err(
            Failure::usage("`--metadata` is for a Hub on PostgreSQL and object storage")
                .hint("leave it out: the backup of this Hub contains everything"),
        );
    }
    let options = PostgresOptions::from(&settings.database);
    let position = context.block_on(async {
        let position = PostgresState::position(&options).await;
        position.map_err(|error| Failure::failed(error.to_string()))
    })?;
    let Some(database) = position else {
        return Err(Failure::usage("the database does not contain a Hub")
            .hint("`database.url` says where it is"));
    };
    let objects = ObjectLocation::parse(&settings.objects.url)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let positions = json!({
        "database": {
            "time": database.time,
            "systemIdentifier": database.system,
            "timeline": database.timeline,
            "walPosition": database.wal,
            "tablesVersion": database.tables,
        },
        "objects": {
            "url": objects.to_string(),
            "endpoint": settings.objects.endpoint,
            "time": database.time,
        },
    });
    let text = format!("{positions:#}\n");
    if file.as_os_str() == "-" {
        io::stdout().write_all(text.as_bytes())?;
        return Ok(());
    }
    write_private(file, text.as_bytes()).map_err(|error| {
        Failure::failed(format!("`{}` cannot be written: {error}", file.display()))
    })?;
    context.output.json(positions);
    context.output.note(format!(
        "Wrote the positions of database and objects to `{}`. Restore the objects to that time or to a later one.",
        file.display()
    ));
    Ok(())
}

pub(super) fn restore(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    let settings = embedded_hub::load_settings(&local_sources(&args.data))?;
    let root = &settings.data_dir;
    let file = File::open(&args.file).map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", args.file.display()))
    })?;
    let restored = context.block_on(async {
        let mut restored = backup::restore_backup(file, root).await?;
        restored.is_key_missing &= !settings.secret_key_file.exists();
        if restored.is_key_missing && args.forget_secrets {
            backup::forget_secrets(root).await?;
            restored.is_key_missing = false;
        }
        Ok(restored)
    })?;
    let output = context.output;
    output.json(json!({
        "dataDir": root.display().to_string(),
        "paths": restored.manifest.files.len(),
        "keyMissing": restored.is_key_missing,
        "commands": restored.commands,
    }));
    let files = pluralize(restored.manifest.files.len(), "path");
    output.note(format!("Restored {files} to `{}`.", root.display()));
    if !restored.commands.is_empty() {
        let listed = restored
            .commands
            .iter()
            .map(|RestoredCommand { file, command }| format!("\n  {file}: {command}"));
        output.warning(format!(
            "restored files have commands in them; look at them before you start the Hub, which runs those of `hub.yaml`:{}",
            listed.collect::<String>()
        ));
    }
    if args.forget_secrets {
        output.note("Secrets without a key are forgotten: set the variables of tenants again.");
    }
    if restored.is_key_missing {
        output.warning(format!(
            "the backup has no key for its secrets: put the old `secret.key` into `{}` before the Hub starts. If that is lost, remove the directory and restore with `--forget-secrets`",
            root.display()
        ));
    }
    Ok(())
}

fn migrate_postgres(context: &Context, settings: &Settings) -> Result<(), Failure> {
    context.block_on(async {
        let opened = OpenedState::open(&settings.database, "migrate").await;
        let state = opened.map_err(|error| Failure::failed(error.to_string()))?;
        state.shared().close().await;
        Ok(())
    })?;
    context.output.json(json!({"database": "postgres"}));
    context
        .output
        .note("The PostgreSQL database has the tables of this version.");
    Ok(())
}

pub(super) fn run_migrate(context: &Context, args: &DataDirArgs) -> Result<(), Failure> {
    let settings = embedded_hub::load_settings(&local_sources(args))?;
    if settings.database.is_postgres() {
        return migrate_postgres(context, &settings);
    }
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
