//! `hermes hub migrate`: a stopped Hub gets the tables of this version, or goes to other storage.

use std::path::Path;

use hermes_hub::storage::migration::{MigrationError, migrate_hub};
use serde_json::json;

use super::{backup, serve::local_sources};
use crate::{
    cli::HubMigrateArgs, commands::state::pluralize, context::Context, embedded_hub,
    failure::Failure,
};

pub(super) fn run(context: &Context, args: &HubMigrateArgs) -> Result<(), Failure> {
    match &args.to {
        None => backup::run_migrate(context, &args.data),
        Some(to) => migrate_to(context, args, to),
    }
}

fn migrate_to(context: &Context, args: &HubMigrateArgs, to: &str) -> Result<(), Failure> {
    let mut sources = local_sources(&args.data);
    let is_back = to.starts_with("sqlite:");
    if is_back && let Some(objects) = &args.objects {
        sources.flags.insert("objects.url".into(), objects.clone());
    }
    let from = embedded_hub::load_settings(&sources)?;
    let (database, objects) = target_of(&from.data_dir, to, args.objects.as_deref())?;
    sources.flags.insert("database.url".into(), database);
    sources.flags.insert("objects.url".into(), objects);
    let target = embedded_hub::load_settings(&sources)?;
    let report = context.block_on(async {
        migrate_hub(&from, &target)
            .await
            .map_err(|error| failure_of(&error))
    })?;
    let tables: serde_json::Map<String, serde_json::Value> = report
        .tables
        .iter()
        .map(|table| (table.name.clone(), table.rows.into()))
        .collect();
    context.output.json(json!({
        "tables": tables,
        "shares": report.shares,
        "shareFiles": report.share_files,
        "shareBytes": report.share_bytes,
        "skippedLinks": report.skipped_links,
        "homes": report.homes,
    }));
    let rows: u64 = report.tables.iter().map(|table| table.rows).sum();
    context.output.note(format!(
        "Copied and compared {}, {} of {} and {}.",
        counted(rows, "row"),
        counted(report.share_files, "file"),
        counted(report.shares, "share"),
        counted(report.homes, "home"),
    ));
    if report.skipped_links > 0 {
        context.output.note(format!(
            "{} in shares were left out: object storage has none.",
            counted(report.skipped_links, "link")
        ));
    }
    let hint = if is_back {
        "Remove `database.url` and `objects.url` from the settings, then start the Hub."
    } else {
        "Set `database.url` and `objects.url` in the settings to the new places, then start the Hub."
    };
    context.output.note(hint);
    Ok(())
}

fn counted(number: u64, thing: &str) -> String {
    pluralize(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

/// The addresses of the target.
fn target_of(
    data_dir: &Path,
    to: &str,
    objects: Option<&str>,
) -> Result<(String, String), Failure> {
    if to.starts_with("sqlite:") {
        if to != "sqlite:" {
            return Err(Failure::usage(
                "`--to sqlite:` is the database of the data directory; it takes no path",
            )
            .hint("`--data-dir` names another directory"));
        }
        return Ok((
            format!("sqlite:{}", data_dir.join("hub.db").display()),
            format!("file:{}", data_dir.join("shares").display()),
        ));
    }
    let Some(objects) = objects else {
        return Err(
            Failure::usage("`--objects` is missing: files go to object storage")
                .hint("write `--objects s3://bucket/prefix`, or `file:///directory`"),
        );
    };
    Ok((to.to_owned(), objects.to_owned()))
}

fn failure_of(error: &MigrationError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        MigrationError::SameKind(_) => Failure::usage(error.to_string()),
        MigrationError::NotEmpty => {
            failure.hint("an old `hub.db` can be moved away; another database can be created")
        }
        _ => failure,
    }
}
