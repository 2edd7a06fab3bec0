//! Tools that run what a directory or a package holds: builds, tests, installations.

use std::path::PathBuf;

use super::Invocation;
use crate::approval::command::written_files::option_values;

/// A tool, and the files of a directory that tell it what to run.
struct BuildTool {
    names: &'static [&'static str],
    /// With one of these verbs; without any, always.
    verbs: &'static [&'static str],
    files: &'static [&'static str],
}

const BUILD_TOOLS: &[BuildTool] = &[
    BuildTool {
        names: &["make", "gmake"],
        verbs: &[],
        files: &["Makefile", "makefile", "GNUmakefile"],
    },
    BuildTool {
        names: &[
            "ninja", "cmake", "meson", "ant", "mvn", "gradle", "rake", "just", "tox", "nox",
        ],
        verbs: &[],
        files: &[
            "build.ninja",
            "CMakeLists.txt",
            "meson.build",
            "build.xml",
            "pom.xml",
            "build.gradle",
            "build.gradle.kts",
            "Rakefile",
            "justfile",
            "tox.ini",
            "noxfile.py",
        ],
    },
    BuildTool {
        names: &["npm", "pnpm", "yarn", "bun"],
        verbs: &[
            "install", "i", "ci", "add", "run", "test", "t", "start", "build", "exec", "rebuild",
            "dev",
        ],
        files: &["package.json"],
    },
    BuildTool {
        names: &["cargo"],
        verbs: &[
            "build", "b", "run", "r", "test", "t", "bench", "check", "c", "clippy", "install",
            "doc",
        ],
        files: &["Cargo.toml"],
    },
    BuildTool {
        names: &["go"],
        verbs: &["run", "test", "generate"],
        files: &["go.mod"],
    },
    BuildTool {
        names: &["pip", "pip3", "pipx", "uv", "poetry"],
        verbs: &["install", "sync", "run", "build"],
        files: &["pyproject.toml", "setup.py"],
    },
    BuildTool {
        names: &["pytest"],
        verbs: &[],
        files: &["conftest.py", "pyproject.toml", "pytest.ini"],
    },
    BuildTool {
        names: &["bundle", "composer"],
        verbs: &["install", "exec", "update", "run"],
        files: &["Gemfile", "composer.json"],
    },
];
/// Options that name the directory to work in.
const DIRECTORY_OPTIONS: [&str; 6] = ["-C", "--directory", "--prefix", "--cwd", "-S", "--project"];
/// Programs that run or install the packages that they are given.
const INSTALLERS: [&str; 18] = [
    "apt", "apt-get", "dnf", "dpkg", "gem", "java", "npm", "pip", "pip3", "pipx", "pnpm", "rpm",
    "snap", "uv", "wine", "yarn", "yum", "zypper",
];

/// The files by which a build tool knows what to run.
pub(super) fn executed_files(run: &Invocation<'_>) -> Vec<PathBuf> {
    let Some(tool) = BUILD_TOOLS
        .iter()
        .find(|tool| tool.names.contains(&run.name))
    else {
        return Vec::new();
    };
    let mut operands = run.operands();
    if !tool.verbs.is_empty() && !operands.any(|word| tool.verbs.contains(&word)) {
        return Vec::new();
    }
    let mut directories = vec![run.directory.to_path_buf()];
    let named = option_values(run.arguments, &DIRECTORY_OPTIONS);
    let operands = run.operands().filter(|word| word.contains(['/', '.']));
    let named = named.iter().map(String::as_str).chain(operands);
    directories.extend(named.flat_map(|word| run.paths(word)));
    let mut files: Vec<PathBuf> = directories
        .iter()
        .flat_map(|directory| tool.files.iter().map(|file| directory.join(file)))
        .collect();
    let named = option_values(
        run.arguments,
        &["-f", "--file", "--manifest-path", "--makefile"],
    );
    files.extend(named.iter().flat_map(|word| run.paths(word)));
    files
}

/// The packages that an installer is given.
pub(super) fn installed_files(run: &Invocation<'_>) -> Vec<PathBuf> {
    if !INSTALLERS.contains(&run.name) {
        return Vec::new();
    }
    run.operands().flat_map(|word| run.paths(word)).collect()
}
