//! Code that is handed to an interpreter on the command line, as in `python -c`.
//!
//! No programming language is parsed. The strings in the code are checked as commands, paths and SQL where the code
//! calls something that could use them so.

use super::{
    classify::{CommandContext, Finding, Findings, Severity, add_finding, classify_line},
    remote_code, rules, sql,
};
use crate::approval::command::paths;

const SCRIPT_RULE: &str = "script execution via -e/-c flag";
const PROTECTED_FILES_RULE: &str = "code that names protected files";
const DOWNLOAD_RULE: &str = "pipe remote content to shell";

const PROCESS_CALLS: [&str; 21] = [
    "system",
    "popen",
    "subprocess",
    "exec",
    "spawn",
    "check_call",
    "check_output",
    "Open3",
    "passthru",
    "do shell script",
    "`",
    "%x",
    "pty.",
    "Process.",
    "proc_open",
    "shell-command",
    "call-process",
    // Pipes of awk.
    "| getline",
    "|getline",
    "| \"",
    "|\"",
];
/// Calls that delete directories with everything in them.
const TREE_DELETION_CALLS: [&str; 8] = [
    "rmtree",
    "rm_rf",
    "rm_r ",
    "rm_r(",
    "remove_tree",
    "rmSync",
    "rmdirSync",
    "fs.rm(",
];
/// File modes for writing, and calls that write.
const WRITE_CALLS: [&str; 9] = [
    "'w",
    "\"w",
    "'a",
    "\"a",
    "write_text",
    "writeFile",
    "file_put_contents",
    "File.write",
    ">>",
];
/// Fork bombs, and calls that kill all processes.
const BLOCKED_CALLS: [&str; 4] = [
    "fork while fork",
    "while(1){fork",
    "os.kill(-1",
    "Process.kill(9,-1",
];

pub(crate) fn classify_code(
    code: &str,
    context: &CommandContext,
    depth: usize,
    findings: &mut Findings,
) {
    let shown = || code.chars().take(400).collect::<String>();
    let has = |calls: &[&str]| calls.iter().any(|call| code.contains(call));
    if BLOCKED_CALLS
        .iter()
        .any(|text| code.contains(text) || code.replace(' ', "").contains(&text.replace(' ', "")))
    {
        add_finding(
            findings,
            Severity::Block,
            SCRIPT_RULE,
            "floods the machine with processes or ends all of them",
            shown,
        );
        return;
    }
    let texts = extract_strings(code);
    let paths = || {
        texts.iter().flat_map(|text| {
            paths::expand_paths(text, &context.directory, &context.protected_paths)
        })
    };
    if has(&TREE_DELETION_CALLS) {
        let is_hopeless =
            paths().any(|path| paths::describe_loss(&path, &context.protected_paths).is_some());
        let weight = if is_hopeless {
            Severity::Block
        } else {
            Severity::Ask
        };
        add_finding(
            findings,
            weight,
            SCRIPT_RULE,
            "code that deletes a directory with everything in it",
            shown,
        );
    }
    if texts
        .iter()
        .any(|text| mentions_protected_path(text, context))
    {
        add_finding(
            findings,
            Severity::Ask,
            PROTECTED_FILES_RULE,
            "code that names files of Hermes, start files of shells, keys, or the memory of processes",
            shown,
        );
    }
    if has(&WRITE_CALLS) && paths().any(|path| crate::approval::protected::is_system_config(&path))
    {
        add_finding(
            findings,
            Severity::Ask,
            SCRIPT_RULE,
            "code that writes to the system's configuration",
            shown,
        );
    }
    if remote_code::runs_fetched_text(code) {
        add_finding(
            findings,
            Severity::Ask,
            DOWNLOAD_RULE,
            "code that runs something straight from the network",
            shown,
        );
    }
    for text in &texts {
        for destruction in sql::find_destructive(text) {
            let (rule, reason) = rules::rule_for_sql(destruction);
            add_finding(findings, Severity::Ask, rule, reason, shown);
        }
    }
    if has(&PROCESS_CALLS) {
        let mut inner = Vec::new();
        for text in &texts {
            classify_line(text, context, depth, &mut inner);
        }
        for (weight, finding) in inner {
            let reason = format!("code that runs a command: {}", finding.reason);
            findings.push((
                weight,
                Finding {
                    rule: SCRIPT_RULE,
                    reason,
                    ..finding
                },
            ));
        }
    }
}

/// Whether code mentions a protected file: as a path, by the name of the home, or in
/// pieces that are joined when it runs.
fn mentions_protected_path(text: &str, context: &CommandContext) -> bool {
    let protected = &context.protected_paths;
    // A project's `*.key` may be anything.
    let is_hidden = |path: &std::path::Path| {
        let user = protected.user_home.as_ref();
        let rest = user.and_then(|user| path.strip_prefix(user).ok());
        rest.is_some_and(|rest| rest.to_string_lossy().starts_with('.'))
    };
    let is_protected = |path: &std::path::Path| {
        protected.is_secret_store(path)
            || protected.is_hermes_config(path)
            || protected.is_database(path)
            || protected.is_startup_file(path)
            || protected.is_process_socket(path)
            || (protected.is_user_credential(path) && is_hidden(path))
            || crate::approval::protected::is_process_memory(path)
    };
    let home = protected.hermes_home.as_ref();
    let is_home = |name: &str| {
        let of_home = home.and_then(|home| home.file_name());
        let is_home = of_home.is_some_and(|of_home| of_home == name && name.starts_with('.'));
        is_home || name == crate::approval::protected::USUAL_HUB_NAME
    };
    // Settings have names that other directories have too.
    let is_secret = |path: &std::path::Path| {
        protected.is_secret_store(path)
            || protected.is_startup_file(path)
            || (protected.is_user_credential(path) && is_hidden(path))
    };
    let elsewhere = context.other_directories.paths(text, protected);
    let mut parts = text.split('/');
    text.contains("HERMES_HOME")
        || parts.any(|part| is_home(part) || crate::approval::protected::is_startup_name(part))
        || (text.contains("/proc") && (text.contains("environ") || text.contains("/mem")))
        || paths::expand_paths(text, &context.directory, protected)
            .iter()
            .any(|path| is_protected(path))
        || elsewhere.iter().any(|path| is_secret(path))
}

/// The string literals of a program, and lists of them joined to a line, such as `["rm", "-r"]`.
pub(super) fn extract_strings(code: &str) -> Vec<String> {
    let mut strings: Vec<String> = Vec::new();
    let mut list: Vec<String> = Vec::new();
    let mut characters = code.chars();
    let mut only_commas = false;
    while let Some(character) = characters.next() {
        if !matches!(character, '\'' | '"' | '`') {
            only_commas &= character == ',' || character.is_whitespace();
            continue;
        }
        let mut text = String::new();
        while let Some(next) = characters.next().filter(|&next| next != character) {
            match next {
                '\\' => text.extend(
                    characters
                        .next()
                        .map(|escaped| if escaped == 'n' { '\n' } else { escaped }),
                ),
                _ => text.push(next),
            }
        }
        if text.is_empty() {
            continue;
        }
        if !only_commas {
            finish_list(&mut list, &mut strings);
        }
        only_commas = true;
        list.push(text.clone());
        strings.push(text);
    }
    finish_list(&mut list, &mut strings);
    strings
}

fn finish_list(list: &mut Vec<String>, strings: &mut Vec<String>) {
    if list.len() > 1 {
        strings.push(list.join(" "));
    }
    list.clear();
}

#[cfg(test)]
mod tests {
    use super::extract_strings;

    #[test]
    fn strings_are_found_alone_and_as_lists() {
        assert_eq!(
            extract_strings("run(['rm', '-r', x, \"y\"])"),
            ["rm", "-r", "rm -r", "y"]
        );
        assert_eq!(extract_strings(r#"print("a \" b")"#), ["a \" b"]);
        assert_eq!(extract_strings("'''doc'''"), ["doc"]);
    }
}
