//! Programs that fetch something, and where they save it.

use super::{
    classify::Invocation,
    programs, shell,
    shell::{ShellCommand, ShellWord},
    written_files::{FileExtent, FileOrigin, FileRecord, option_values},
};

/// They write what they fetch to their output, or to a file that an option names.
const DOWNLOADERS: [&str; 8] = [
    "curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "nc",
];
/// The same, by names that many files have too.
const MORE_DOWNLOADERS: [&str; 11] = [
    "wget2", "axel", "xh", "xhs", "curlie", "w3m", "elinks", "ncat", "socat", "ssh", "ftpget",
];
/// Programs that take commands, by which they fetch files.
const FILE_CLIENTS: [&str; 6] = ["sftp", "ftp", "lftp", "tftp", "ncftpget", "smbclient"];
/// Commands of these, as far as they fetch.
const GETTING: [&str; 6] = ["get", "mget", "reget", "mirror", "pget", "recv"];

/// A program with a verb that fetches files.
struct Transfer {
    names: &'static [&'static str],
    verbs: &'static [&'static [&'static str]],
    target: TransferTarget,
}

/// Where a transfer puts what it fetches.
enum TransferTarget {
    /// The last operand; if that is elsewhere, it sends.
    LastOperand,
    /// What options name: files, and directories.
    Options(&'static [&'static str], &'static [&'static str]),
    /// Its output.
    Output,
}

const TRANSFERS: &[Transfer] = &[
    Transfer {
        names: &["gh", "glab"],
        verbs: &[&["release", "download"], &["run", "download"]],
        target: TransferTarget::Options(&["-O", "--output"], &["-D", "--dir"]),
    },
    Transfer {
        names: &["gh", "glab"],
        verbs: &[&["api"], &["gist", "view"], &["snippet", "view"]],
        target: TransferTarget::Output,
    },
    Transfer {
        names: &["aws"],
        verbs: &[
            &["s3", "cp"],
            &["s3", "mv"],
            &["s3", "sync"],
            &["s3api", "get-object"],
        ],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["gsutil"],
        verbs: &[&["cp"], &["mv"], &["rsync"]],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["gcloud"],
        verbs: &[
            &["storage", "cp"],
            &["storage", "mv"],
            &["storage", "rsync"],
        ],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["az"],
        verbs: &[&["blob", "download"], &["file", "download"]],
        target: TransferTarget::Options(&["-f", "--file", "--dest"], &[]),
    },
    Transfer {
        names: &["rclone"],
        verbs: &[&["copy"], &["copyto"], &["move"], &["moveto"], &["sync"]],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["docker", "podman", "nerdctl", "kubectl", "oc"],
        verbs: &[&["cp"]],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["mc", "s3cmd"],
        verbs: &[&["cp"], &["mirror"], &["get"], &["sync"]],
        target: TransferTarget::LastOperand,
    },
    Transfer {
        names: &["hf", "huggingface-cli"],
        verbs: &[&["download"]],
        target: TransferTarget::Options(&[], &["--local-dir"]),
    },
];

/// Whether a command downloads something. The program may follow `sudo` or `env`.
pub(crate) fn downloads(command: &ShellCommand) -> bool {
    let mut words = command.words.iter().take(3);
    let is_named =
        words.any(|word| DOWNLOADERS.contains(&word.text.rsplit('/').next().unwrap_or_default()));
    is_named || is_download(programs::without_wrappers(&command.words))
}

/// Whether a program with its arguments downloads something.
pub(crate) fn is_download(words: &[ShellWord]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    if programs::is_shell(name) || name == "eval" {
        let mut lines = option_values(arguments, &["-c"]);
        if name == "eval" {
            lines.push(shell::join_words(arguments));
        }
        return lines.iter().any(|line| line_downloads(line));
    }
    DOWNLOADERS.contains(&name)
        || MORE_DOWNLOADERS.contains(&name)
        || FILE_CLIENTS.contains(&name)
        || find_transfer(name, arguments).is_some()
}

/// Whether one of the commands of a line downloads something.
pub(crate) fn line_downloads(line: &str) -> bool {
    shell::parse(line).is_ok_and(|commands| commands.iter().any(downloads))
}

/// The files and directories that a command fetches, other than by `curl`, `wget` and their like.
pub(crate) fn fetched_files(run: &Invocation<'_>) -> Vec<(String, FileRecord)> {
    let operands: Vec<&str> = run.operands().collect();
    match run.name {
        "http" | "https" | "xh" | "xhs" => {
            let named = option_values(run.arguments, &["-o", "--output"]);
            if named.is_empty() && run.has_flag('d', "download") {
                return vec![changed_files(".")];
            }
            return named.into_iter().map(whole_file).collect();
        }
        "axel" => {
            let named = option_values(run.arguments, &["-o", "--output"]);
            if named.is_empty() {
                return vec![changed_files(".")];
            }
            return named.into_iter().map(whole_file).collect();
        }
        name if FILE_CLIENTS.contains(&name) => {
            let gets = |text: String| text.split_whitespace().any(|word| GETTING.contains(&word));
            if !run.input().is_none_or(gets) {
                return Vec::new();
            }
            let mut files = vec![changed_files(".")];
            if let [_, target] = operands.as_slice() {
                files.push(target_record(run, target));
            }
            return files;
        }
        _ => {}
    }
    match find_transfer(run.name, run.arguments) {
        Some(TransferTarget::LastOperand) => match operands.last() {
            // It sends, or prints.
            Some(target) if target.contains(':') && operands.len() > 2 => Vec::new(),
            Some(&"-") | None => Vec::new(),
            Some(source) if source.contains(':') => vec![changed_files(".")],
            Some(target) => vec![target_record(run, target)],
        },
        Some(TransferTarget::Options(files, directories)) => {
            let named = option_values(run.arguments, files);
            let directories = option_values(run.arguments, directories);
            if named.is_empty() && directories.is_empty() {
                return vec![changed_files(".")];
            }
            let directories = directories.iter().map(|directory| changed_files(directory));
            directories
                .chain(named.into_iter().map(whole_file))
                .collect()
        }
        Some(TransferTarget::Output) | None => Vec::new(),
    }
}

fn find_transfer(name: &str, arguments: &[ShellWord]) -> Option<&'static TransferTarget> {
    let mut transfers = TRANSFERS
        .iter()
        .filter(|transfer| transfer.names.contains(&name))
        .peekable();
    transfers.peek()?;
    let words = arguments.iter().map(|word| word.text.as_str());
    let operands: Vec<&str> = words
        .filter(|word| !word.starts_with('-'))
        .take(6)
        .collect();
    // What runs in a container is not a verb.
    let is_inside = matches!(operands.first(), Some(&("exec" | "run")));
    let has_verb = |transfer: &&Transfer| {
        transfer.verbs.iter().any(|verb| {
            let mut places = operands.windows(verb.len()).take(3);
            places.any(|words| words == *verb) && (!is_inside || verb.len() > 1)
        })
    };
    transfers.find(has_verb).map(|transfer| &transfer.target)
}

fn whole_file(name: String) -> (String, FileRecord) {
    (name, FileOrigin::Download.into())
}

/// Files of a directory whose names are not known.
fn changed_files(directory: &str) -> (String, FileRecord) {
    let record = FileRecord {
        origin: FileOrigin::Download,
        extent: FileExtent::UnpackedSince(None),
    };
    (directory.to_owned(), record)
}

/// A target that is a file, or a directory that gets files.
fn target_record(run: &Invocation<'_>, target: &str) -> (String, FileRecord) {
    let is_directory =
        target.ends_with(['/', '.']) || run.paths(target).iter().any(|path| path.is_dir());
    if is_directory {
        changed_files(target)
    } else {
        whole_file(target.to_owned())
    }
}
