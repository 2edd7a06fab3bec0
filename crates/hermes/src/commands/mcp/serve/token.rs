//! The token that clients of the HTTP server present.

use std::{fs, io, path::Path};

use hermes_config::{
    Secret, Settings,
    private_file::{ExistingFile, FileOwner, WriteOptions, create_private_dirs, write_file},
    random::random_hex,
};

use crate::{cli::ServeArgs, context::Context, failure::Failure};

const TOKEN_VARIABLE: &str = "HERMES_BRIDGE_TOKEN";

/// The token: from the file that is named, the environment, the configuration, or one kept in the home.
pub(super) fn find_token(
    context: &Context,
    args: &ServeArgs,
    settings: &Settings,
) -> Result<Secret<String>, Failure> {
    if let Some(path) = &args.token_file {
        return read_token(path);
    }
    if let Some(token) = settings
        .variables
        .get(TOKEN_VARIABLE)
        .filter(|token| !token.is_empty())
    {
        return Ok(Secret::new(token.to_owned()));
    }
    if let Some(token) = &settings.bridge.http.token {
        return Ok(token.clone());
    }
    let path = context.home.path().join("bridge/token");
    if !path.exists() {
        create_token(&path).map_err(|error| {
            Failure::failed(format!(
                "no token can be kept in `{}`: {error}",
                path.display()
            ))
            .hint(format!(
                "name a file with `--token-file`, or set `{TOKEN_VARIABLE}`"
            ))
        })?;
    }
    context.output.note(format!("token: {}", path.display()));
    read_token(&path)
}

fn read_token(path: &Path) -> Result<Secret<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "the token in `{}` cannot be read: {error}",
            path.display()
        ))
    })?;
    let token = text.trim();
    let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_one {
        let problem = format!(
            "`{}` holds no token: one line of visible characters",
            path.display()
        );
        return Err(Failure::usage(problem));
    }
    Ok(Secret::new(token.to_owned()))
}

/// Makes a token that nobody can guess, in a file that only its owner can read.
fn create_token(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_private_dirs(directory, FileOwner::Writer)?;
    }
    let token = random_hex::<32>()? + "\n";
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        ..WriteOptions::default()
    };
    write_file(path, token.as_bytes(), options)
}
