//! The first line of a script, which names the program that runs it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

/// As much of the line as the kernel looks at.
const MAX_SHEBANG_BYTES: u64 = 256;

/// The words after `#!`; none if the file is not a script.
pub(crate) fn script_words(script: &Path) -> Vec<String> {
    let read = || {
        let mut line = Vec::new();
        BufReader::new(File::open(script).ok()?.take(MAX_SHEBANG_BYTES))
            .read_until(b'\n', &mut line)
            .ok()?;
        let line = String::from_utf8(line).ok()?;
        let words = line.strip_prefix("#!")?.split_ascii_whitespace();
        Some(words.map(str::to_owned).collect())
    };
    read().unwrap_or_default()
}

/// The program that runs a script: a path, or a name to look up in the PATH where the script leaves that to `env`.
pub(crate) fn script_interpreter(script: &Path) -> Option<String> {
    let mut words = script_words(script).into_iter();
    let first = words.next()?;
    if !Path::new(&first).ends_with("env") {
        return Some(first);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_what_the_line_names_or_what_env_looks_up() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        for (line, interpreter) in [
            (
                "#!/opt/venv/bin/python3\nimport os\n",
                Some("/opt/venv/bin/python3"),
            ),
            ("#!/usr/bin/env node\n", Some("node")),
            ("#! /usr/bin/env -S A=1 node --flag\n", Some("node")),
            ("\u{7f}ELF", None),
            ("", None),
        ] {
            std::fs::write(&script, line).unwrap();
            assert_eq!(
                script_interpreter(&script).as_deref(),
                interpreter,
                "{line}"
            );
        }
        assert_eq!(script_interpreter(Path::new("/nowhere")), None);
    }
}
