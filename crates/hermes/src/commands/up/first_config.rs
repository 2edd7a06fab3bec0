//! The `config.yaml` of a fresh home: comments that teach it.

use std::io::ErrorKind;

use hermes_config::private_file::{ExistingFile, WriteOptions, write_file};

use crate::{context::Context, failure::Failure};

const TEXT: &str = "\
# The configuration of hermes. A running `hermes up` follows this file: save it, and what changed is applied.
#
# Each entry under `mcp_servers` is one MCP server, under a name you choose. It has either a `command`, a program
# that is started and spoken to over stdin and stdout, or a `url`.
#
# You need not write entries by hand:
#   hermes mcp add time --command uvx --args mcp-server-time
#   hermes mcp import      # takes over the servers of Claude, Cursor, VS Code, Codex and others
#   hermes mcp catalog     # servers to choose from
#
# Secrets do not belong in here. Put `DOCS_TOKEN=...` into the file `.env` beside this one and write ${DOCS_TOKEN}.
# A local server gets no variable of yours but the few every program needs; name the others under `env`.

mcp_servers:
  # A local server. `npx` comes with Node.js.
  # filesystem:
  #   command: npx
  #   args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/tmp\"]
  #   tools:
  #     exclude: [write_file, edit_file]

  # A remote server.
  # docs:
  #   url: https://docs.example.com/mcp
  #   headers:
  #     Authorization: Bearer ${DOCS_TOKEN}
";

/// Writes the file for its owner only, unless there is one.
pub(in crate::commands) fn write_if_missing(context: &Context) -> Result<(), Failure> {
    let path = context.home.config_file();
    let refused = |error: std::io::Error| {
        Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
            .hint("set `HERMES_HOME` to a directory that hermes may use")
    };
    context.home.create().map_err(refused)?;
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        ..WriteOptions::default()
    };
    match write_file(&path, TEXT.as_bytes(), options) {
        Ok(()) => {
            context.output.note(format!(
                "Wrote `{}`: a configuration without servers, with examples.",
                path.display()
            ));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::{Settings, Variables};

    use super::*;

    fn load(text: &str) -> Settings {
        Settings::parse(text, Variables::default()).unwrap()
    }

    #[test]
    fn it_loads_without_a_warning_and_has_no_server() {
        let settings = load(TEXT);
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        assert!(settings.servers.is_empty());
    }

    #[test]
    fn its_examples_are_servers_once_the_signs_before_them_are_gone() {
        let (head, examples) = TEXT.split_once("mcp_servers:\n").unwrap();
        let examples = examples
            .lines()
            .filter(|line| !line.ends_with('.'))
            .map(|line| line.replacen("# ", "", 1))
            .collect::<Vec<_>>()
            .join("\n");
        let settings = load(&format!("{head}mcp_servers:\n{examples}"));
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        let kinds: Vec<_> = settings
            .servers
            .iter()
            .map(|entry| entry.server.as_ref().unwrap().transport.kind())
            .collect();
        assert_eq!(kinds, ["stdio", "http"]);
    }
}
