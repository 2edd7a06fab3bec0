//! Where archives and repositories go when a command unpacks or clones them.

use super::{
    classify::Invocation,
    programs::without_options,
    shell::{Direction, ShellWord},
};

/// A command that unpacks an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpacking {
    /// The archive, unless it comes from a pipe.
    pub(crate) archive: Option<String>,
    /// The directory that gets its files: the working directory, if none is named.
    pub(crate) directory: Option<String>,
}

/// What a command unpacks, if it does.
pub(crate) fn find_unpacking(run: &Invocation<'_>) -> Option<Unpacking> {
    match run.name {
        "tar" | "bsdtar" | "gtar" => tar(run.arguments),
        "unzip" => unzip(run.arguments),
        "7z" | "7za" | "7zr" => seven_zip(run.arguments),
        "unrar" | "unar" => Some(Unpacking {
            archive: run
                .operands()
                .find(|word| word.contains('.'))
                .map(str::to_owned),
            directory: None,
        }),
        "cpio" if run.has_flag('i', "extract") => {
            let redirects = run.command.redirects.iter();
            let mut inputs = redirects.filter(|redirect| redirect.direction == Direction::In);
            Some(Unpacking {
                archive: inputs.next().map(|redirect| redirect.target.clone()),
                directory: None,
            })
        }
        _ => None,
    }
}

/// `tar xzf a.tgz -C d`, `tar -x --file=a.tar`
fn tar(arguments: &[ShellWord]) -> Option<Unpacking> {
    let mut found = Unpacking::default();
    let mut extracts = false;
    let mut words = arguments.iter().map(|word| word.text.as_str());
    let mut is_first = true;
    while let Some(word) = words.next() {
        let is_bundle = std::mem::take(&mut is_first) && !word.starts_with('-');
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            match name {
                "extract" | "get" => extracts = true,
                "file" => found.archive = value.or_else(|| words.next().map(str::to_owned)),
                "directory" => found.directory = value.or_else(|| words.next().map(str::to_owned)),
                _ => {}
            }
        } else if is_bundle || word.starts_with('-') {
            let letters = word.trim_start_matches('-');
            for (at, letter) in letters.char_indices() {
                let place = match letter {
                    'x' => {
                        extracts = true;
                        continue;
                    }
                    'f' => &mut found.archive,
                    'C' => &mut found.directory,
                    _ => continue,
                };
                let attached = &letters[at + 1..];
                if is_bundle || attached.is_empty() {
                    *place = words.next().map(str::to_owned);
                } else {
                    *place = Some(attached.to_owned());
                    break;
                }
            }
        }
    }
    extracts.then_some(found)
}

/// `unzip a.zip -d d`
fn unzip(arguments: &[ShellWord]) -> Option<Unpacking> {
    const ONLY_SHOWS: [char; 5] = ['l', 't', 'p', 'v', 'Z'];
    let mut found = Unpacking::default();
    let mut words = arguments.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Some("d") => found.directory = words.next().map(str::to_owned),
            Some(flags) if flags.starts_with('d') => found.directory = Some(flags[1..].to_owned()),
            Some(flags) if flags.contains(ONLY_SHOWS) => return None,
            None if found.archive.is_none() => found.archive = Some(word.to_owned()),
            Some(_) | None => {}
        }
    }
    found.archive.is_some().then_some(found)
}

/// `7z x a.7z -od`
fn seven_zip(arguments: &[ShellWord]) -> Option<Unpacking> {
    let (verb, rest) = arguments.split_first()?;
    if !matches!(&*verb.text, "x" | "e") {
        return None;
    }
    let words = || rest.iter().map(|word| word.text.as_str());
    Some(Unpacking {
        archive: words()
            .find(|word| !word.starts_with('-'))
            .map(str::to_owned),
        directory: words()
            .find_map(|word| word.strip_prefix("-o"))
            .map(str::to_owned),
    })
}

/// What `gunzip a.sh.gz` makes: `a.sh`.
pub(crate) fn decompressed_file(run: &Invocation<'_>) -> Option<(String, String)> {
    let decompresses = match run.name {
        "gunzip" | "bunzip2" | "unxz" | "unzstd" | "unlz4" | "uncompress" => true,
        "gzip" | "bzip2" | "xz" | "zstd" | "lz4" => run.has_flag('d', "decompress"),
        _ => false,
    };
    let from = run.operands().next().filter(|_| decompresses)?;
    let (stem, _) = from.rsplit_once('.')?;
    Some((from.to_owned(), stem.to_owned()))
}

/// The directory that `git clone`, `gh repo clone` and the like make.
pub(crate) fn clone_directory(run: &Invocation<'_>) -> Option<String> {
    const VALUES: [&str; 13] = [
        "-b",
        "--branch",
        "--depth",
        "-o",
        "--origin",
        "-j",
        "--jobs",
        "-c",
        "--config",
        "-u",
        "--reference",
        "--filter",
        "--template",
    ];
    let mut below = None;
    let rest = match run.name {
        "git" => {
            let place = run.arguments.iter().position(|word| word.text == "-C");
            below = place.and_then(|at| Some(run.arguments.get(at + 1)?.text.clone()));
            verb_arguments(without_options(run.arguments, &["-C", "-c"]), &["clone"])?
        }
        "gh" | "glab" => verb_arguments(run.arguments, &["repo", "clone"])?,
        "hg" | "jj" => verb_arguments(run.arguments, &["clone"])
            .or_else(|| verb_arguments(run.arguments, &["git", "clone"]))?,
        "svn" => verb_arguments(run.arguments, &["checkout"])
            .or_else(|| verb_arguments(run.arguments, &["co"]))?,
        _ => return None,
    };
    let mut operands = Vec::new();
    let mut words = rest.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        if VALUES.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            operands.push(word);
        }
    }
    let directory = match operands.as_slice() {
        [url] => file_name_of_url(url).map(|name| name.trim_end_matches(".git").to_owned())?,
        [_, directory, ..] => (*directory).to_owned(),
        [] => return None,
    };
    Some(match below {
        Some(below) if !directory.starts_with(['/', '~', '$']) => format!("{below}/{directory}"),
        _ => directory,
    })
}

/// What comes after these words.
fn verb_arguments<'a>(words: &'a [ShellWord], verb: &[&str]) -> Option<&'a [ShellWord]> {
    let begins = words
        .iter()
        .zip(verb)
        .all(|(word, verb)| word.text == *verb);
    words.get(verb.len()..).filter(|_| begins)
}

/// The name under which a downloaded file is saved.
pub(crate) fn file_name_of_url(address: &str) -> Option<String> {
    let address = address.split(['?', '#']).next()?;
    let name = address.trim_end_matches('/').rsplit(['/', ':']).next()?;
    (!name.is_empty() && !name.starts_with('-')).then(|| name.to_owned())
}
