//! `hermes hub backup` and `restore`: all that a Hub of this machine keeps, in one file and back.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use hermes_hub::{
    data_dir::DataDir,
    settings::Settings,
    state::{SqliteState, State},
};
use hermes_store::db::copy_database;
use tempfile::TempDir;

use super::{
    archive::{Archive, entries, unpack},
    serve::local_sources,
};
use crate::{
    cli::{BackupArgs, RestoreArgs},
    commands::state::count,
    context::Context,
    failure::Failure,
    hosting::{self, database},
};

/// Directories that are kept whole.
const TREES: [&str; 4] = ["tenants", "shares", "trash", "sync"];
/// How a file of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

pub(super) fn run(context: &Context, args: &BackupArgs) -> Result<(), Failure> {
    let settings = hosting::settings(&local_sources(&args.data))?;
    if !database(&settings)?.exists() {
        return Err(
            Failure::usage(format!("`{}` holds no Hub", settings.data_dir.display()))
                .hint("`--data-dir` says where it is"),
        );
    }
    let files = if args.file.as_os_str() == "-" {
        context.block_on(write(&settings, args, io::stdout().lock()))?
    } else {
        // A backup that fails leaves none behind that looks like one.
        let directory = args
            .file
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        let files = context.block_on(write(&settings, args, file.as_file_mut()))?;
        file.as_file().sync_all()?;
        file.persist(&args.file).map_err(|error| {
            Failure::failed(format!(
                "`{}` can not be written: {error}",
                args.file.display()
            ))
        })?;
        files
    };
    let key = if args.with_key {
        "with the key of its secrets; keep it where only you can read it"
    } else {
        "without `secret.key`; keep that file elsewhere, or the secrets must be set again"
    };
    context
        .output
        .note(format!("Backed up {}, {key}.", count(files, "file")));
    Ok(())
}

async fn write(settings: &Settings, args: &BackupArgs, to: impl Write) -> Result<usize, Failure> {
    let root = &settings.data_dir;
    // Beside the data: nobody else can enter there, and there is room.
    let copies = TempDir::with_prefix_in("backup-", root)?;
    let mut packing = Packing {
        archive: Archive::new(to)?,
        copies: &copies,
        count: 0,
    };
    packing.database("hub.db", &database(settings)?).await?;
    let mut single = vec![
        ("hub.yaml", root.join("hub.yaml")),
        ("node.id", root.join("node.id")),
    ];
    if args.with_key {
        single.push(("secret.key", settings.secret_key_file.clone()));
        single.push(("admin.token", settings.admin_token_file.clone()));
    }
    for (name, path) in single {
        if path.is_file() {
            packing.archive.file(name, &path)?;
        }
    }
    for tree in TREES {
        packing.tree(tree, &root.join(tree)).await?;
    }
    Ok(packing.archive.finish()?)
}

/// An archive that is being written.
struct Packing<'t, W: Write> {
    archive: Archive<W>,
    /// Where databases are copied to first.
    copies: &'t TempDir,
    count: usize,
}

impl<W: Write> Packing<'_, W> {
    /// A directory and all that is in it.
    async fn tree(&mut self, name: &str, directory: &Path) -> Result<(), Failure> {
        let mut ahead = vec![(name.to_owned(), directory.to_path_buf())];
        while let Some((name, directory)) = ahead.pop() {
            if !directory.is_dir() {
                continue;
            }
            self.archive.directory(&name, &directory)?;
            for (child, path, kind) in entries(&directory)? {
                let name = format!("{name}/{child}");
                if kind.is_dir() {
                    ahead.push((name, path));
                    continue;
                }
                let done = if kind.is_symlink() {
                    self.archive.link(&name, &path)
                } else if kind.is_file() {
                    self.file(&name, &path).await?
                } else {
                    Ok(())
                };
                match done {
                    // Gone since it was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
        }
        Ok(())
    }

    async fn file(&mut self, name: &str, path: &Path) -> Result<io::Result<()>, Failure> {
        // What these hold is in the copy of their database.
        if ["-wal", "-shm", "-journal"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            return Ok(Ok(()));
        }
        if is_database(path) {
            self.database(name, path).await?;
            return Ok(Ok(()));
        }
        Ok(self.archive.file(name, path))
    }

    /// A database, as it is at one moment.
    async fn database(&mut self, name: &str, path: &Path) -> Result<(), Failure> {
        self.count += 1;
        let copy = self.copies.path().join(format!("{}.db", self.count));
        copy_database(path, &copy).await?;
        self.archive.file(name, &copy)?;
        fs::remove_file(copy)?;
        Ok(())
    }
}

fn is_database(path: &Path) -> bool {
    let mut begin = [0; SQLITE.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == SQLITE
}

pub(super) fn restore(context: &Context, args: &RestoreArgs) -> Result<(), Failure> {
    let settings = hosting::settings(&local_sources(&args.data))?;
    let root = &settings.data_dir;
    let file = File::open(&args.file).map_err(|error| {
        Failure::usage(format!(
            "`{}` can not be read: {error}",
            args.file.display()
        ))
    })?;
    if !entries(root)?.is_empty() {
        return Err(
            Failure::usage(format!("`{}` is not empty", root.display())).hint(
                "`--data-dir` names a new directory; nothing is ever restored over what is there",
            ),
        );
    }
    let directory = DataDir::create(root).map_err(|error| Failure::failed(error.to_string()))?;
    let restored = unpack(file, directory.path()).and_then(|files| {
        // What cannot be opened is no Hub.
        context.block_on(async {
            let node = directory
                .node_id()
                .map_err(|error| Failure::failed(error.to_string()))?;
            let state = SqliteState::open(&directory.database(), &node).await?;
            let has_secrets = state
                .has_sealed()
                .await
                .map_err(|error| Failure::failed(error.to_string()))?;
            State::close(&state).await;
            Ok((files, has_secrets))
        })
    });
    let (files, has_secrets) = match restored {
        Ok(restored) => restored,
        Err(failure) => {
            // Nothing was here before.
            for (_, path, kind) in entries(root)? {
                let _ = if kind.is_dir() {
                    fs::remove_dir_all(path)
                } else {
                    fs::remove_file(path)
                };
            }
            return Err(failure);
        }
    };
    let output = context.output;
    output.note(format!(
        "Restored {} to `{}`.",
        count(files, "file"),
        root.display()
    ));
    if has_secrets && !directory.secret_key().exists() {
        output.warning(format!(
            "the backup has no key for its secrets: put the old `secret.key` into `{}` before the Hub starts",
            root.display()
        ));
    }
    Ok(())
}
