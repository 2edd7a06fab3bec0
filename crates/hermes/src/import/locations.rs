//! Where the programs keep their files on Linux, macOS and Windows.

use std::path::{Path, PathBuf};

use super::ImportSource;

/// The directories the usual places are relative to.
#[derive(Debug, Clone)]
pub struct SearchDirectories {
    /// The user's home directory.
    pub home_dir: PathBuf,
    /// `$XDG_CONFIG_HOME`, else `~/.config`, on macOS too.
    pub config_dir: PathBuf,
    /// `%APPDATA%`, on Windows.
    pub appdata: Option<PathBuf>,
    /// The project the user stands in.
    pub cwd: PathBuf,
}

/// A file that exists in one of the usual places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Whose file it is.
    pub source: ImportSource,
    /// Where.
    pub path: PathBuf,
}

/// The files there are, of all sources.
pub fn find_source_files(environment: &SearchDirectories) -> Vec<SourceFile> {
    let files = ImportSource::ALL.into_iter().flat_map(|source| {
        let paths = source.standard_paths(environment).into_iter();
        paths.map(move |path| SourceFile { source, path })
    });
    files.filter(|file| file.path.is_file()).collect()
}

impl ImportSource {
    /// Where its files usually are: a project's own before the user's. Places of other operating systems are
    /// listed as well; no file is there.
    pub fn standard_paths(self, environment: &SearchDirectories) -> Vec<PathBuf> {
        let SearchDirectories {
            home_dir: home,
            config_dir: config,
            cwd,
            ..
        } = environment;
        match self {
            Self::ClaudeDesktop => application_directories(environment)
                .map(|directory| directory.join("Claude/claude_desktop_config.json"))
                .collect(),
            Self::ClaudeCode => vec![cwd.join(".mcp.json"), home.join(".claude.json")],
            Self::Cursor => vec![cwd.join(".cursor/mcp.json"), home.join(".cursor/mcp.json")],
            Self::Windsurf => vec![
                home.join(".codeium/windsurf/mcp_config.json"),
                home.join(".codeium/mcp_config.json"),
            ],
            Self::VsCode => {
                let mut paths = vec![
                    cwd.join(".vscode/mcp.json"),
                    cwd.join(".vscode/settings.json"),
                ];
                for directory in application_directories(environment) {
                    for edition in ["Code", "Code - Insiders"] {
                        let user = directory.join(edition).join("User");
                        paths.extend([user.join("mcp.json"), user.join("settings.json")]);
                    }
                }
                paths
            }
            Self::Codex => vec![
                cwd.join(".codex/config.toml"),
                home.join(".codex/config.toml"),
            ],
            Self::OpenCode => {
                let mut directories = vec![
                    cwd.clone(),
                    cwd.join(".opencode"),
                    config.join("opencode"),
                    home.join(".config/opencode"),
                ];
                directories.dedup();
                let files = directories.iter().flat_map(|directory| {
                    ["opencode.json", "opencode.jsonc"].map(|file| directory.join(file))
                });
                files.collect()
            }
            Self::Zed => {
                let mut paths = vec![
                    cwd.join(".zed/settings.json"),
                    config.join("zed/settings.json"),
                ];
                paths.extend(in_appdata(environment, "Zed/settings.json"));
                paths
            }
            Self::Goose => {
                let mut paths = vec![config.join("goose/config.yaml")];
                paths.extend(in_appdata(environment, "Block/goose/config/config.yaml"));
                paths
            }
        }
    }
}

impl ImportSource {
    /// The file of the user's own servers: the one that exists, or else the one this operating system has. `None` for
    /// programs that nothing is written for.
    pub(crate) fn user_file(self, environment: &SearchDirectories) -> Option<PathBuf> {
        let SearchDirectories { home_dir: home, .. } = environment;
        let file = match self {
            Self::ClaudeCode => return Some(home.join(".claude.json")),
            Self::Cursor => return Some(home.join(".cursor/mcp.json")),
            Self::Codex => return Some(home.join(".codex/config.toml")),
            Self::ClaudeDesktop => "Claude/claude_desktop_config.json",
            Self::VsCode => "Code/User/mcp.json",
            _ => return None,
        };
        let mut files = application_directories(environment).map(|directory| directory.join(file));
        files.find(|path| path.is_file()).or_else(|| {
            let own = if cfg!(target_os = "macos") {
                home.join("Library/Application Support")
            } else {
                let appdata = environment.appdata.clone();
                appdata.unwrap_or_else(|| environment.config_dir.clone())
            };
            Some(own.join(file))
        })
    }
}

/// Where desktop programs keep their settings: Linux, macOS, Windows.
fn application_directories(environment: &SearchDirectories) -> impl Iterator<Item = PathBuf> {
    [
        environment.config_dir.clone(),
        environment.home_dir.join("Library/Application Support"),
    ]
    .into_iter()
    .chain(environment.appdata.clone())
}

fn in_appdata(environment: &SearchDirectories, file: &str) -> Option<PathBuf> {
    environment
        .appdata
        .as_ref()
        .map(|appdata| appdata.join(file))
}

/// The project a file belongs to; `None` for a user's own settings.
pub(super) fn project_of(path: &Path) -> Option<PathBuf> {
    let directory = path.parent().filter(|directory| directory.is_absolute())?;
    let file = path.file_name()?.to_str()?;
    let project = match directory.file_name()?.to_str()? {
        ".vscode" | ".cursor" | ".codex" | ".opencode" | ".zed" => directory.parent()?,
        _ if file == ".mcp.json" => directory,
        "opencode" => return None,
        _ if file.starts_with("opencode.json") => directory,
        _ => return None,
    };
    (!is_users_home(project)).then(|| project.to_owned())
}

/// `~/.cursor` and the like are named as in a project, but speak of no directory.
fn is_users_home(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name);
    path == Path::new("/root") || parent.is_some_and(|parent| parent == "home" || parent == "Users")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn environment(root: &Path) -> SearchDirectories {
        SearchDirectories {
            home_dir: root.join("home"),
            config_dir: root.join("home/.config"),
            appdata: None,
            cwd: root.join("project"),
        }
    }

    #[test]
    fn each_source_has_its_places_on_each_system() {
        let mut environment = environment(Path::new("/r"));
        environment.appdata = Some("/r/appdata".into());
        for (source, path) in [
            (
                ImportSource::ClaudeDesktop,
                "home/Library/Application Support/Claude/claude_desktop_config.json",
            ),
            (
                ImportSource::ClaudeDesktop,
                "home/.config/Claude/claude_desktop_config.json",
            ),
            (
                ImportSource::ClaudeDesktop,
                "appdata/Claude/claude_desktop_config.json",
            ),
            (ImportSource::ClaudeCode, "home/.claude.json"),
            (ImportSource::ClaudeCode, "project/.mcp.json"),
            (ImportSource::Cursor, "home/.cursor/mcp.json"),
            (
                ImportSource::Windsurf,
                "home/.codeium/windsurf/mcp_config.json",
            ),
            (ImportSource::VsCode, "project/.vscode/mcp.json"),
            (ImportSource::VsCode, "home/.config/Code/User/mcp.json"),
            (
                ImportSource::VsCode,
                "home/Library/Application Support/Code/User/settings.json",
            ),
            (
                ImportSource::VsCode,
                "appdata/Code - Insiders/User/mcp.json",
            ),
            (ImportSource::Codex, "home/.codex/config.toml"),
            (
                ImportSource::OpenCode,
                "home/.config/opencode/opencode.jsonc",
            ),
            (ImportSource::OpenCode, "project/opencode.json"),
            (ImportSource::Zed, "home/.config/zed/settings.json"),
            (ImportSource::Zed, "appdata/Zed/settings.json"),
            (ImportSource::Goose, "home/.config/goose/config.yaml"),
            (
                ImportSource::Goose,
                "appdata/Block/goose/config/config.yaml",
            ),
        ] {
            let paths = source.standard_paths(&environment);
            assert!(paths.contains(&Path::new("/r").join(path)), "{path}");
        }
    }

    #[test]
    fn only_files_that_exist_are_found() {
        let root = tempfile::tempdir().unwrap();
        let environment = environment(root.path());
        assert_eq!(find_source_files(&environment), []);
        let path = root.path().join("home/.cursor/mcp.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{}").unwrap();
        let source = ImportSource::Cursor;
        assert_eq!(
            find_source_files(&environment),
            [SourceFile { source, path }]
        );
    }

    #[test]
    fn a_project_is_the_directory_its_file_speaks_of() {
        for (file, project) in [
            ("/p/.vscode/mcp.json", Some("/p")),
            ("/p/.mcp.json", Some("/p")),
            ("/p/opencode.json", Some("/p")),
            ("/home/ada/.config/opencode/opencode.json", None),
            ("/home/ada/.claude.json", None),
            ("/Users/ada/.cursor/mcp.json", None),
            ("/root/.codex/config.toml", None),
            (".mcp.json", None),
        ] {
            assert_eq!(
                project_of(Path::new(file)),
                project.map(PathBuf::from),
                "{file}"
            );
        }
    }
}
