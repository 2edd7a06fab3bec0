//! `hermes logs`: the end of a log file, and what is added to it.

use std::{
    fs::File,
    io::{Read, Seek},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::{Redactor, Variables};
use serde_json::json;

use crate::{cli::LogsArgs, context::Context, failure::Failure, logging};

/// How often a followed log is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(context: &Context, args: &LogsArgs) -> Result<(), Failure> {
    let output = context.output;
    if output.is_json() && args.follow {
        return Err(Failure::usage("`--json` and `--follow` do not go together"));
    }
    let path = match args.log.as_str() {
        "mcp" => context.home.logs_dir().join("mcp-stderr.log"),
        _ => logging::log_path(&context.home),
    };
    // What servers print is kept as it came; nothing secret of it reaches a screen.
    let redactor = Redactor::for_variables(&Variables::load(&context.home, None).0);
    let mut log = FollowedLog::new(path.clone());
    let added = log.read_added()?;
    let text = redactor.redact(&added);
    if text.is_empty() && !args.follow {
        output.note(format!("nothing is logged yet in `{}`", path.display()));
    }
    let lines = last_lines(&text, args.lines);
    output.json(json!({"log": args.log, "path": path, "lines": lines}));
    if output.is_json() {
        return Ok(());
    }
    let mut is_read = lines.iter().all(|line| output.stream(&format!("{line}\n")));
    while args.follow && is_read {
        std::thread::sleep(POLL_INTERVAL);
        is_read = output.stream(&redactor.redact(&log.read_added()?));
    }
    Ok(())
}

fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

/// A log file and how much of it has been read. The logs are small enough to be read whole.
struct FollowedLog {
    path: PathBuf,
    open: Option<File>,
}

impl FollowedLog {
    fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// What was written since the last look, also where a new file has been begun.
    fn read_added(&mut self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.open {
            file.read_to_end(&mut bytes)?;
        }
        if !self
            .open
            .as_ref()
            .is_some_and(|file| is_same_file(file, &self.path))
        {
            self.open = match File::open(&self.path) {
                Ok(mut file) => {
                    file.read_to_end(&mut bytes)?;
                    Some(file)
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    let path = self.path.display();
                    return Err(Failure::failed(format!("`{path}` cannot be read: {error}")));
                }
            };
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Whether this is still the file of that name, and not cut short since.
fn is_same_file(mut file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else {
        return false;
    };
    let position = file.stream_position().unwrap_or(0);
    (open.dev(), open.ino()) == (named.dev(), named.ino()) && position <= open.len()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_lines_are_the_last_ones() {
        assert_eq!(last_lines("a\nb\nc\n", 2), ["b", "c"]);
        assert_eq!(last_lines("a\n", 2), ["a"]);
        assert!(last_lines("a\n", 0).is_empty());
    }

    #[test]
    fn following_goes_on_in_the_next_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = FollowedLog::new(path.clone());
        assert_eq!(log.read_added().unwrap(), "");
        fs::write(&path, "one\n").unwrap();
        assert_eq!(log.read_added().unwrap(), "one\n");
        assert_eq!(log.read_added().unwrap(), "");
        fs::rename(&path, directory.path().join("log.1")).unwrap();
        fs::write(&path, "two\n").unwrap();
        assert_eq!(log.read_added().unwrap(), "two\n");
    }

    #[test]
    fn what_was_written_before_a_new_file_began_is_not_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "one\n").unwrap();
        let mut log = FollowedLog::new(path.clone());
        log.read_added().unwrap();
        fs::write(&path, "one\nlast\n").unwrap();
        fs::rename(&path, directory.path().join("log.1")).unwrap();
        fs::write(&path, "new\n").unwrap();
        assert_eq!(log.read_added().unwrap(), "last\nnew\n");
    }
}
