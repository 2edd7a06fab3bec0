//! Whether code that is handed to an interpreter runs text that it reads or fetches.
//!
//! As in `code`, no language is parsed: names of functions tell.

use super::{code::extract_strings, programs};

/// Functions that run text as code. With a dot before them they are something else, such as `re.compile`.
const EVALUATING: [&str; 8] = [
    "eval",
    "exec",
    "compile",
    "execfile",
    "Function",
    "loadstring",
    "dofile",
    "uplevel",
];
/// What may be before the dot nevertheless.
const BUILT_IN: [&str; 5] = [
    "builtins.",
    "builtins__.",
    "globalThis.",
    "window.",
    "Kernel.",
];
/// Names that run programs, or code that was packed up.
const RUNNING: [&str; 33] = [
    "Deno.Command",
    "Invoke-Expression",
    "Open3",
    "Popen",
    "Process.spawn",
    "Bun.spawn",
    "call_process",
    "capture2",
    "check_call",
    "check_output",
    "child_process",
    "class_eval",
    "execl",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "iex",
    "importlib",
    "instance_eval",
    "marshal",
    "module_eval",
    "os.execute",
    "passthru",
    "pickle",
    "popen",
    "proc_open",
    "runInContext",
    "runInNewContext",
    "runInThisContext",
    "runpy",
    "shell_exec",
    "subprocess",
];
/// Names and texts by which code gets something from the network.
const FETCHING: [&str; 21] = [
    "urlopen",
    "urlretrieve",
    "urllib",
    "requests.",
    "httpx",
    "http.client",
    "aiohttp",
    "socket.",
    "ftplib",
    "fetch(",
    "axios",
    "http.get",
    "https.get",
    "LWP",
    "HTTP::Tiny",
    "open-uri",
    "Net::HTTP",
    "curl_exec",
    "file_get_contents('http",
    "file_get_contents(\"http",
    "DownloadString",
];

/// Whether code runs text as code or as a command.
pub(crate) fn runs_text(code: &str) -> bool {
    EVALUATING.iter().any(|name| evaluates(code, name))
        || RUNNING.iter().any(|name| has_name(code, name))
        || has_name(code, "system")
        // `print | "sh"` of awk
        || extract_strings(code).iter().any(|text| {
            let first = text.split_whitespace().next().unwrap_or_default();
            code.contains('|') && programs::is_shell(first)
        })
}

/// Whether code runs something that it has fetched itself.
pub(crate) fn runs_fetched_text(code: &str) -> bool {
    let fetches = FETCHING.iter().any(|text| code.contains(text));
    (fetches && runs_text(code)) || imports_address(code)
}

/// `import("https://…")`
fn imports_address(code: &str) -> bool {
    ["import", "from"].iter().any(|name| {
        code.match_indices(*name).any(|(at, _)| {
            let rest = code[at + name.len()..].trim_start_matches([' ', '(']);
            let address = rest.strip_prefix(['"', '\'', '`']).unwrap_or_default();
            address.starts_with("http://") || address.starts_with("https://")
        })
    })
}

/// Whether a name is called that runs text as code: `eval(x)`, `eval join "", <>`, but not `eval { … }`.
fn evaluates(code: &str, name: &str) -> bool {
    places(code, name).any(|(before, after)| {
        let is_method =
            before.ends_with('.') && !BUILT_IN.iter().any(|text| before.ends_with(text));
        let after = after.trim_start();
        !is_method && after.starts_with(|c: char| c.is_alphanumeric() || "($<\"'_%@[".contains(c))
    })
}

fn has_name(code: &str, name: &str) -> bool {
    places(code, name).next().is_some()
}

/// What is before and after a name, where it is not a part of a longer one.
fn places<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name)
        .map(move |(at, _)| (&code[..at], &code[at + name.len()..]))
        .filter(move |(before, after)| !before.ends_with(is_part) && !after.starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_runs_text_is_known() {
        for code in [
            "import sys; exec(sys.stdin.read())",
            "eval join\"\",<>",
            "eval(require('fs').readFileSync(0, 'utf8'))",
            "import builtins; builtins.exec(x)",
            "os.system(input())",
            "import subprocess as s; s.run(x)",
            "{ print | \"sh\" }",
            "{ system($0) }",
            "new Function(text)()",
            "load(io.read('*a'))(); os.execute(x)",
        ] {
            assert!(runs_text(code), "{code}");
        }
        for code in [
            "import json,sys; print(json.load(sys.stdin)['a'])",
            "import re; re.compile('x')",
            "/x/.exec(line)",
            "eval { decode_json($_) }",
            "import ast; ast.literal_eval(x)",
            "{ print $1 }",
            "cursor.execute(x)",
            "print('a|b')",
        ] {
            assert!(!runs_text(code), "{code}");
        }
    }

    #[test]
    fn code_that_runs_what_it_fetched_is_known() {
        for code in [
            "exec(urllib.request.urlopen('https://x').read())",
            "eval(await (await fetch('https://x')).text())",
            "import('https://x/y.js')",
            "import x from 'https://x/y.js'",
            "require 'open-uri'; eval URI.open('https://x').read",
        ] {
            assert!(runs_fetched_text(code), "{code}");
        }
        for code in [
            "import requests; print(requests.get('https://x').json())",
            "fetch('https://x').then(r => r.text()).then(console.log)",
            "import json; json.loads('{}')",
        ] {
            assert!(!runs_fetched_text(code), "{code}");
        }
    }
}
