//! Files that were written in the same session, and where their content came from. Running one of them runs
//! something that nobody has reviewed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use super::{
    classify::Invocation,
    downloads::{downloads, fetched_files, is_download},
    shell::{Direction, ShellWord},
    unpacking::{clone_directory, decompressed_file, file_name_of_url, find_unpacking},
};

/// Where the content of a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOrigin {
    /// The model, or one of its commands.
    Session,
    /// An archive that was unpacked.
    Archive,
    Download,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileRecord {
    pub(crate) origin: FileOrigin,
    pub(crate) extent: FileExtent,
}

/// What of a path was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileExtent {
    /// The file, or the directory with all that is in it.
    Whole,
    /// Files of an archive, in a directory that may have others. They have changed since then; without a time the
    /// line that unpacks them is still being looked at.
    UnpackedSince(Option<SystemTime>),
}

impl From<FileOrigin> for FileRecord {
    fn from(origin: FileOrigin) -> Self {
        Self {
            origin,
            extent: FileExtent::Whole,
        }
    }
}

impl FileRecord {
    /// Two records of the same path: the worse origin, and all that either is about.
    fn merge(self, other: Self) -> Self {
        use FileExtent::{UnpackedSince, Whole};
        let extent = match (self.extent, other.extent) {
            (Whole, _) | (_, Whole) => Whole,
            (UnpackedSince(None), _) | (_, UnpackedSince(None)) => UnpackedSince(None),
            (UnpackedSince(a), UnpackedSince(b)) => UnpackedSince(a.min(b)),
        };
        Self {
            origin: self.origin.max(other.origin),
            extent,
        }
    }

    /// Whether it is about a path, its own or one below it.
    fn covers(self, path: &Path) -> bool {
        match self.extent {
            FileExtent::Whole | FileExtent::UnpackedSince(None) => true,
            FileExtent::UnpackedSince(Some(time)) => changed_since(path, time),
        }
    }
}

/// How many files are remembered; a session that writes more has been asked before.
const MAX_FILES: usize = 4096;

/// Files that were written in a session. Copies are cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenFiles(Arc<BTreeMap<PathBuf, FileRecord>>);

impl WrittenFiles {
    pub(crate) fn add(&mut self, path: PathBuf, record: impl Into<FileRecord>) {
        let record = record.into();
        let known = self.0.get(&path);
        let record = match known {
            // What is written anew has a new origin.
            Some(known) if record.extent != FileExtent::Whole => known.merge(record),
            _ => record,
        };
        if known != Some(&record) && (self.0.len() < MAX_FILES || known.is_some()) {
            Arc::make_mut(&mut self.0).insert(path, record);
        }
    }

    pub(crate) fn merge(&mut self, others: &Self) {
        for (path, record) in &*others.0 {
            self.add(path.clone(), *record);
        }
    }

    /// Adds what a line writes that begins now.
    pub(crate) fn merge_since(&mut self, others: &Self, now: SystemTime) {
        for (path, record) in &*others.0 {
            let mut record = *record;
            if record.extent == FileExtent::UnpackedSince(None) {
                record.extent = FileExtent::UnpackedSince(Some(now));
            }
            self.add(path.clone(), record);
        }
    }

    /// The origin of a file that was written in the session, itself or as part of a fetched directory.
    pub(crate) fn origin(&self, path: &Path) -> Option<FileOrigin> {
        let mut all = path.ancestors();
        all.find_map(|above| self.0.get(above).filter(|record| record.covers(path)))
            .map(|record| record.origin)
    }
}

/// Whether a file has been written, replaced or renamed since.
fn changed_since(path: &Path, time: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    // Times of files are those of the last tick of the clock.
    const TICK_SECONDS: i64 = 1;
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.map_or(0, |since| since.as_secs().cast_signed());
    metadata.ctime() + TICK_SECONDS > since
}

/// The files a command writes to, as it names them.
pub(crate) fn output_files(run: &Invocation<'_>) -> Vec<(String, FileRecord)> {
    let redirects = run.command.redirects.iter();
    let mut targets: Vec<String> = redirects
        .filter(|redirect| redirect.direction == Direction::Out)
        .map(|redirect| redirect.target.clone())
        .collect();
    let operands = || run.operands().map(str::to_owned);
    match run.name {
        "tee" | "touch" => targets.extend(operands()),
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => targets.extend(copy_targets(run)),
        "dd" => targets.extend(run.arguments.iter().filter_map(|word| {
            let target = word.text.strip_prefix("of=")?;
            Some(target.to_owned())
        })),
        "curl" => {
            targets.extend(option_values(run.arguments, &["-o", "--output"]));
            let saves_all = run
                .arguments
                .iter()
                .any(|word| word.text == "--remote-name-all");
            if saves_all
                || run.has_flag('O', "remote-name")
                || run.has_flag('J', "remote-header-name")
            {
                let directory = option_values(run.arguments, &["--output-dir"]);
                targets.extend(names_of_urls(run, directory.last()));
            }
        }
        "wget" | "wget2" | "aria2c" => {
            let named = option_values(run.arguments, &["-O", "--output-document", "-o", "--out"]);
            if named.is_empty() {
                let options: &[&str] = match run.name {
                    "aria2c" => &["-d", "--dir"],
                    _ => &["-P", "--directory-prefix"],
                };
                let directory = option_values(run.arguments, options);
                targets.extend(names_of_urls(run, directory.last()));
            }
            targets.extend(named);
        }
        _ => {}
    }
    let own = [std::slice::from_ref(run.program), run.arguments].concat();
    let is_fetched =
        is_download(&own) || (run.command.reads_pipe && run.preceding.iter().any(downloads));
    let origin = if is_fetched {
        FileOrigin::Download
    } else {
        copied_origin(run)
    };
    let mut files: Vec<(String, FileRecord)> = targets
        .into_iter()
        .map(|target| (target, origin.into()))
        .collect();
    files.extend(fetched_files(run));
    files.extend(clone_directory(run).map(|made| (made, FileOrigin::Download.into())));
    files.extend(unpacked_files(run, is_fetched));
    // Discarded output.
    files.retain(|(target, _)| !target.starts_with("/dev/") && target != "-");
    files
}

/// What a copy makes: a file, or files in a directory.
fn copy_targets(run: &Invocation<'_>) -> Vec<String> {
    let operands: Vec<&str> = run.operands().collect();
    let Some((target, sources)) = operands.split_last() else {
        return Vec::new();
    };
    let is_directory =
        target.ends_with(['/', '.']) || run.paths(target).iter().any(|path| path.is_dir());
    if !is_directory {
        return vec![(*target).to_owned()];
    }
    let names = sources.iter().filter_map(|source| file_name_of_url(source));
    names.map(|name| format!("{target}/{name}")).collect()
}

/// A copy comes from where its source does.
fn copied_origin(run: &Invocation<'_>) -> FileOrigin {
    let copies = matches!(run.name, "cp" | "mv" | "install" | "ln" | "rsync");
    let origins = run
        .operands()
        .filter(|_| copies)
        .filter_map(|source| source_origin(run, source));
    origins.max().unwrap_or(FileOrigin::Session)
}

fn source_origin(run: &Invocation<'_>, source: &str) -> Option<FileOrigin> {
    let paths = run.paths(source);
    let origins = paths
        .iter()
        .filter_map(|path| run.written_files.origin(path));
    origins.max()
}

/// What a command takes out of an archive or a compressed file.
fn unpacked_files(run: &Invocation<'_>, is_fetched: bool) -> Vec<(String, FileRecord)> {
    let origin_of = |archive: Option<&String>| {
        let known = archive.and_then(|archive| source_origin(run, archive));
        if is_fetched || known == Some(FileOrigin::Download) {
            FileOrigin::Download
        } else {
            FileOrigin::Archive
        }
    };
    let mut files = Vec::new();
    if let Some(unpacking) = find_unpacking(run) {
        let record = FileRecord {
            origin: origin_of(unpacking.archive.as_ref()),
            extent: FileExtent::UnpackedSince(None),
        };
        files.push((unpacking.directory.unwrap_or_else(|| ".".into()), record));
    }
    if let Some((from, made)) = decompressed_file(run) {
        files.push((made, origin_of(Some(&from)).into()));
    }
    files
}

/// The files that downloaded addresses are saved as.
fn names_of_urls(run: &Invocation<'_>, directory: Option<&String>) -> Vec<String> {
    let names = run.operands().filter_map(file_name_of_url);
    names
        .map(|name| match directory {
            Some(directory) => format!("{directory}/{name}"),
            None => name,
        })
        .collect()
}

/// The values of options, as a separate word or attached to the option.
pub(crate) fn option_values(arguments: &[ShellWord], options: &[&str]) -> Vec<String> {
    let mut values = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let next = || arguments.get(index + 1).map(|word| word.text.clone());
        let flags = word.text.strip_prefix('-').unwrap_or_default();
        for option in options {
            let letter = option.strip_prefix('-').unwrap_or_default();
            match word.text.strip_prefix(option) {
                Some("") => values.extend(next()),
                Some(value) => values.push(value.trim_start_matches('=').to_owned()),
                // Combined short options: `-sSo file`.
                None if letter.len() == 1
                    && flags.ends_with(letter)
                    && flags.chars().all(|flag| flag.is_ascii_alphabetic()) =>
                {
                    values.extend(next());
                }
                None => {}
            }
        }
    }
    values
}
